//! Errors of the driver.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::manage::driver::orchestrator_api::OrchestratorError;
use crate::manage::history::HistoryError;
use crate::manage::journal::JournalError;
use crate::provider::ProviderError;

/// Why a manager does not run, or stops.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Another manager runs this fleet.
    #[error("another manager runs the fleet in {}; stop it first, or name another state directory", .0.display())]
    Running(PathBuf),
    /// The token of the orchestrators.
    #[error(transparent)]
    Token(#[from] OrchestratorError),
    /// The manager's own endpoint.
    #[error(
        "cannot listen on 127.0.0.1:{port} for the manager: {source}; choose another `fleet.api_port`, or leave it out for any free one"
    )]
    Listen {
        /// The port.
        port: u16,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The listener for other machines.
    #[error("cannot serve metrics on {address}: {source}; choose another `metrics.listen`, or correct its certificate")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What failed.
        source: io::Error,
    },
    /// A file of the state directory.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The provider.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}
