//! The console of a process: metrics and health over HTTP, and the admin API.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tidegate_admin::{TokenFileError, read_listener_token};
use tidegate_console::api::Access;
use tidegate_console::{Console, ConsoleError, Limits, Operations, Running};
use tidegate_node::HostPort;

use crate::status::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::source::Source;

/// Why the console cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The host is not found.
    #[error("cannot find the address of {at}: {source}")]
    Resolve {
        /// The host and the port.
        at: String,
        /// The cause.
        source: io::Error,
    },
    /// The host has no address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// The address cannot be used.
    #[error(transparent)]
    Console(#[from] ConsoleError),
}

/// Why the console does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartConsoleError {
    /// The token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenFileError),
    /// The address cannot be used.
    #[error("{0}; choose another address with --admin, or `--admin off`")]
    Bind(BindError),
    /// The console has no thread.
    #[error(transparent)]
    Console(#[from] ConsoleError),
}

/// A console that answers, and its address.
pub struct Admin {
    /// The thread that answers.
    pub running: Running,
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The rights of its clients.
    pub access: Access,
}

/// Starts the console where one is wanted. The broker starts without it where the default address is taken, since
/// several brokers may run on one machine. A taken configured address is an error.
///
/// # Errors
/// When the token cannot be read, the configured address cannot be used, or the system gives no thread.
pub fn start(
    config: &Config,
    status: &Arc<BrokerStatus>,
    operations: Option<Arc<dyn Operations>>,
) -> Result<Option<Admin>, StartConsoleError> {
    let Some(at) = config.admin.address.host_port() else { return Ok(None) };
    let admin = &config.admin;
    let limits = Limits {
        max_connections: usize::from(admin.max_connections),
        header_timeout: admin.header_timeout,
        max_header_size: usize::try_from(admin.max_header_size.0).unwrap_or(usize::MAX),
    };
    let access = access(config, at)?;
    match bind(at) {
        Ok(console) => {
            let address = console.address();
            let console = match operations {
                Some(operations) => console.with_operations(operations),
                None => console,
            };
            let running = console.start(limits, &access, Arc::clone(status))?;
            Ok(Some(Admin { running, address, access }))
        }
        Err(error) if *config.origins.source_of("admin", "address") == Source::Default => {
            tracing::warn!(%error, "no metrics and health over HTTP; choose another address with --admin, or `--admin off`");
            Ok(None)
        }
        Err(error) => Err(StartConsoleError::Bind(error)),
    }
}

/// The rights of clients of the console.
fn access(config: &Config, at: &HostPort) -> Result<Access, StartConsoleError> {
    let access = if at.is_loopback() { Access::local() } else { Access::remote(config.admin.allow_anonymous) };
    let Some(path) = &config.admin.token_file else { return Ok(access) };
    Ok(access.with_token(&read_listener_token(Path::new(path))?))
}

fn bind(at: &HostPort) -> Result<Console, BindError> {
    let found = at.resolve().map_err(|source| BindError::Resolve { at: at.to_string(), source })?;
    let address = found.first().ok_or_else(|| BindError::NoAddress(at.to_string()))?;
    Ok(Console::bind(*address)?)
}
