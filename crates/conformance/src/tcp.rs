//! TCP connections, written and read within a time limit.

use crate::outcome::{Outcome, Stop, failed};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The end of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Bytes were appended.
    Bytes,
    /// The broker closed the connection, gracefully or not.
    Closed,
    /// The deadline passed.
    TimedOut,
}

/// Opens a TCP connection to `host:port`.
pub(crate) fn open_tcp(address: &str, patience: Duration) -> Outcome<TcpStream> {
    let resolved = address
        .to_socket_addrs()
        .map_err(|error| Stop::Failed(format!("the address {address} cannot be resolved: {error}")))?;
    let mut last = "it resolves to nothing".to_owned();
    for candidate in resolved {
        match TcpStream::connect_timeout(&candidate, patience) {
            Ok(stream) => {
                // Each packet leaves at once, so that the conversation has the shape the case describes.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error.to_string(),
        }
    }
    failed(format!("no connection to {address}: {last}"))
}

/// Writes all bytes within `patience`. `false` means that the broker has closed the connection.
pub(crate) fn write_all(stream: &mut TcpStream, bytes: &[u8], patience: Duration) -> Outcome<bool> {
    let _ = stream.set_write_timeout(Some(patience));
    match stream.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) if is_closed(&error) => Ok(false),
        Err(error) if is_timeout(&error) => {
            failed(format!("the broker took no bytes for {} s", patience.as_secs_f32()))
        }
        Err(error) => failed(format!("writing failed: {error}")),
    }
}

/// Appends the bytes that arrive on a TCP stream until the deadline.
pub(crate) fn read_some(stream: &mut TcpStream, into: &mut Vec<u8>, deadline: Instant) -> Outcome<Reading> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Reading::TimedOut);
        }
        let _ = stream.set_read_timeout(Some(left));
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Reading::Closed),
            Ok(count) => {
                into.extend_from_slice(buffer.get(..count).unwrap_or_default());
                return Ok(Reading::Bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return Ok(Reading::TimedOut),
            Err(error) if is_closed(&error) => return Ok(Reading::Closed),
            Err(error) => return failed(format!("reading failed: {error}")),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
            | io::ErrorKind::UnexpectedEof
    )
}
