//! Why a server does not start.

use std::io;
use std::net::SocketAddr;

/// Addresses to listen on at most.
pub(crate) const MAX_LISTENERS: usize = 64;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for DNS: {source}{}", advice(source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// An error of the operating system.
        source: io::Error,
    },
    /// No address or too many are given.
    #[error("{0} addresses to listen on: give 1 to {MAX_LISTENERS}")]
    Listeners(usize),
    /// The zone's name leaves no room for names below it.
    #[error("the zone `{0}` leaves no room for names below it: choose a shorter one")]
    Zone(String),
    /// A server of the zone cannot be named.
    #[error("the name server `{name}` {reason}")]
    NameServer {
        /// Its name.
        name: String,
        /// The fault.
        reason: &'static str,
    },
    /// The zone has too many servers.
    #[error("{0} name servers: name 13 at most")]
    TooManyNameServers(usize),
    /// A bound is too narrow to serve anybody.
    #[error("{0} is 0: allow at least 1")]
    Limit(&'static str),
    /// Its thread or runtime cannot be made.
    #[error("cannot start the DNS thread: {0}")]
    Thread(#[from] io::Error),
}

/// The advice for an error of the operating system.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; a port below 1024 needs the capability CAP_NET_BIND_SERVICE",
        io::ErrorKind::AddrInUse => "; another manager, systemd-resolved or another DNS server may have the port",
        _ => "",
    }
}
