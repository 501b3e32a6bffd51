//! Why there is no network for a broker.

use std::io;

/// Why a network could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Only root may make namespaces and devices.
    #[error("a separate network for the broker needs root; run the lab as root, or remove [network] and --board")]
    NotRoot,
    /// A program that is not there.
    #[error("`{0}` is not installed; a separate network needs it. Install iproute2 and util-linux")]
    Missing(&'static str),
    /// Values that are none.
    #[error("[network] {0}")]
    Wrong(String),
    /// The features that cannot be combined.
    #[error("{0}")]
    Together(&'static str),
    /// The kernel has no netem, and the devices of the replacement are missing too.
    #[error("this kernel has no netem, and /dev/net/tun, which would do in its place, cannot be used: {0}")]
    NoTun(io::Error),
    /// A command of iproute2 that failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command.
        command: String,
        /// Its output.
        message: String,
    },
    /// The process in the namespace ended, or broke the protocol.
    #[error("the process that holds the broker's network ended: {0}")]
    Holder(String),
    /// The system refused.
    #[error("cannot {attempt}: {source}")]
    Io {
        /// The attempted action.
        attempt: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl NetworkError {
    pub(super) const fn io(attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { attempt, source }
    }
}
