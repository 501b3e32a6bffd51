//! Failures of commands that read and write results.

use std::io;
use std::path::PathBuf;

use tidegate_lab::draw::ChartError;

/// Why results are not read, compared or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResultsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file has another format.
    #[error("{} is no result of this version of the lab: {source}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: serde_json::Error,
    },
    /// A file with charts has another format.
    #[error("{} is no list of charts: {source}", .path.display())]
    Charts {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: serde_json::Error,
    },
    /// A chart cannot be drawn.
    #[error("chart {}: {source}", .file.display())]
    Chart {
        /// Its file.
        file: PathBuf,
        /// The fault.
        source: ChartError,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Results cannot be encoded.
    #[error("results cannot be written: {0}")]
    Encode(#[from] serde_json::Error),
    /// The base of a report was not measured.
    #[error("the base `{base}` has no runs in {}; there are {peers}", .directory.display())]
    NoBase {
        /// The name of the base.
        base: String,
        /// The directory of the results.
        directory: PathBuf,
        /// The brokers that have runs.
        peers: String,
    },
    /// Runs of different scenarios, or at different time scales.
    #[error("{} has runs of {found}, the first one of {first}; compare runs of one kind", .path.display())]
    Kinds {
        /// The directory of the other runs.
        path: PathBuf,
        /// Their scenario and time scale.
        found: String,
        /// The scenario and time scale of the first runs.
        first: String,
    },
}
