//! The console of a process: metrics and health over HTTP, and the admin API.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tidegate_admin::read_token;
use tidegate_console::api::Access;
use tidegate_console::{Console, ConsoleError, Limits, Running};
use tidegate_node::HostPort;

use crate::operations::BrokerOperations;
use crate::status::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::address::AdminAddress;
use tidegate_config::source::Source;

/// A console that answers, and where.
pub(crate) struct Admin {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
}

/// Starts the console where one is wanted. A taken default address is no reason not to start: several brokers may run
/// on one machine. One that somebody asked for is.
///
/// # Errors
/// In words for people.
pub(crate) fn start(
    config: &Config,
    status: &Arc<BrokerStatus>,
    operations: Option<&Arc<BrokerOperations>>,
) -> Result<Option<Admin>, String> {
    let AdminAddress::At(at) = &config.admin.address else {
        return Ok(None);
    };
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
                Some(operations) => console.with_operations(Arc::clone(operations) as Arc<_>),
                None => console,
            };
            let running = console.start(limits, &access, Arc::clone(status)).map_err(|error| error.to_string())?;
            Ok(Some(Admin { running, address }))
        }
        Err(error) if *config.source_of("admin", "address") == Source::Default => {
            tracing::warn!(%error, "no metrics and health over HTTP; choose another address with --admin, or `--admin off`");
            Ok(None)
        }
        Err(error) => Err(format!("{error}; choose another address with --admin, or `--admin off`")),
    }
}

/// Who may ask the console for what.
fn access(config: &Config, at: &HostPort) -> Result<Access, String> {
    let access = if at.is_loopback() { Access::local() } else { Access::remote(config.admin.allow_anonymous) };
    let Some(path) = &config.admin.token_file else { return Ok(access) };
    let refused = |error: &dyn std::fmt::Display| format!("cannot use the token in {path} (admin.token_file): {error}");
    let token = read_token(Path::new(path)).map_err(|error| refused(&error))?;
    access.with_token(&token).map_err(|error| refused(&error))
}

fn bind(at: &HostPort) -> Result<Console, String> {
    let found = at.resolve().map_err(|error| format!("cannot find the address of {at}: {error}"))?;
    let address = found.first().ok_or_else(|| format!("{at} has no address"))?;
    Console::bind(*address).map_err(|error: ConsoleError| error.to_string())
}
