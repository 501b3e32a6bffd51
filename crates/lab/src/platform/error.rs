//! Why a platform does not run.

use std::io;
use std::path::PathBuf;

use super::bus::BusError;
use crate::peer::PeerError;
use crate::sample::LimitError;

/// Why a platform does not run.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// A program is missing.
    #[error("the platform needs {program}, which is not there: {remedy}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The system refused.
    #[error("cannot {attempt} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        attempt: &'static str,
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A part has no ports.
    #[error(transparent)]
    Ports(#[from] PeerError),
    /// A part has no limits.
    #[error("cannot apply the limits of {part} here: {source}")]
    Limits {
        /// The part.
        part: String,
        /// Why.
        source: LimitError,
    },
    /// A part ended or did not start in time.
    #[error("{part} {how}; its output ends with:\n{tail}")]
    NotReady {
        /// The part.
        part: String,
        /// Whether it ended, or was late.
        how: String,
        /// The end of its output.
        tail: String,
    },
    /// The bus has no stream.
    #[error("the bus has no stream: {0}")]
    Bus(#[from] BusError),
    /// The run was stopped.
    #[error("stopped")]
    Stopped,
}
