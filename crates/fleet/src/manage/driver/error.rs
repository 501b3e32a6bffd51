//! Errors of the driver.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::entry_point::EntryPointError;
use super::logins::LoginError;
use super::orchestrator_api::OrchestratorError;
use crate::manage::history::HistoryError;
use crate::manage::journal::JournalError;
use crate::provider::{ProviderError, ResourceName};

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
        /// The failure.
        source: io::Error,
    },
    /// A file of the state directory.
    #[error("cannot {attempt} {}: {source}", .path.display())]
    Io {
        /// The attempted operation.
        attempt: &'static str,
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

/// Why a command of the manager failed. The manager requests it again.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The history takes no entry.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The provider of resources.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The entry point.
    #[error(transparent)]
    EntryPoint(#[from] EntryPointError),
    /// The login of a broker.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The admin API of an orchestrator.
    #[error(transparent)]
    Orchestrator(#[from] OrchestratorError),
    /// An orchestrator whose admin API is unknown.
    #[error("the admin address of {0} is not known")]
    NoAdmin(ResourceName),
    /// A broker whose address is unknown.
    #[error("the address of {0} is not known")]
    NoAddress(ResourceName),
}
