//! Notifications to the service manager: systemd's protocol (`sd_notify(3)`), one datagram for each change. That is too
//! little for a library.
//!
//! A process without a service manager finds no address in its environment, and sends nothing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use tidegate_terminal::print;

/// The variable with the address of the manager's socket: a path, or `@` and an abstract name.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Longest status, bytes: systemd drops a whole datagram of more than 4,096, and with it the news that the service is
/// up.
const MAX_STATUS: usize = 1_024;

/// How long the manager may leave a datagram waiting. Later changes are sent all the same.
const PATIENCE: Duration = Duration::from_secs(1);

/// True if the service is up, by the last notification.
static IS_UP: AtomicBool = AtomicBool::new(false);

/// Reports that the service is up: on its standard output, and to the service manager, in one line. `who` is for the
/// log.
pub fn tell_ready(who: &str, line: &str) {
    if let Err(error) = print(line) {
        tracing::warn!(%error, "standard output is closed; the ready line of the {who} was not written");
    }
    IS_UP.store(true, Ordering::Relaxed);
    tell(&format!("READY=1\nSTATUS={}", status(line)));
}

/// The first line of a report, as far as it fits: a fleet has a line for each of its brokers.
fn status(said: &str) -> &str {
    let line = said.lines().next().unwrap_or_default();
    let end = (0..=MAX_STATUS.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
    line.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// Reports that the configuration is read again. Before the service is up that is a part of the start.
pub fn tell_reloading() {
    if IS_UP.load(Ordering::Relaxed) {
        let now = clock_gettime(ClockId::Monotonic);
        tell(&format!("RELOADING=1\nMONOTONIC_USEC={}{:06}", now.tv_sec, now.tv_nsec / 1000));
    }
}

/// Says that this is done.
pub fn tell_reloaded() {
    if IS_UP.load(Ordering::Relaxed) {
        tell("READY=1");
    }
}

/// Says that the service stops.
pub fn tell_stopping() {
    tell("STOPPING=1\nSTATUS=stopping");
}

fn tell(change: &str) {
    let Some(socket) = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, change) {
        tracing::warn!(%error, "cannot notify the service manager at {SOCKET} = {}", socket.display());
    }
}

fn send(socket: &OsStr, change: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => abstract_address(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let datagrams = UnixDatagram::unbound()?;
    datagrams.set_write_timeout(Some(PATIENCE))?;
    datagrams.send_to_addr(change.as_bytes(), &address).map(drop)
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has abstract names"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::linux::net::SocketAddrExt;

    use super::*;

    #[test]
    fn sockets_with_abstract_names_are_notified() {
        let name = format!("tidegate-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1").unwrap();
        let mut told = [0; 16];
        let length = manager.recv(&mut told).unwrap();
        assert_eq!(&told[..length], b"READY=1");
    }

    #[test]
    fn the_status_is_one_line_that_the_manager_takes() {
        assert_eq!(status("fleet ready: a b\n  broker-1 mqtt://h:1\n"), "fleet ready: a b");
        assert_eq!(status(""), "");
        let long = format!("x{}", "\u{e4}".repeat(3_000));
        assert_eq!(status(&long).len(), MAX_STATUS - 1, "whole characters");
        assert_eq!(status(&"x".repeat(MAX_STATUS)).len(), MAX_STATUS);
    }

    #[test]
    fn a_missing_service_manager_is_only_an_error() {
        assert!(send(OsStr::new("/nowhere/at/all"), "READY=1").is_err());
        assert!(send(OsStr::new(&"x".repeat(200)), "READY=1").is_err());
        assert!(send(OsStr::new("@unused-name"), "READY=1").is_err());
    }
}
