//! TLS to a broker: trusted authorities, and the handshake, which blocks and is therefore done on the dialing thread.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::tls::explain;

/// Plaintext and ciphertext that wait in a session at most, bytes each.
const MAX_WAITING: usize = 64 * 1024;

/// The TLS settings for brokers: trusted authorities, and the client certificate.
#[derive(Clone)]
pub struct BrokerLinkTls(Arc<ClientConfig>);

impl BrokerLinkTls {
    /// TLS with the authorities and the certificate that a configuration of rustls holds.
    #[must_use]
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }
}

impl fmt::Debug for BrokerLinkTls {
    /// Leaves out keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrokerLinkTls")
    }
}

impl PartialEq for BrokerLinkTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for BrokerLinkTls {}

/// Shakes hands with a broker, within `limit`. The certificate has to be for `host`.
pub(super) fn shake_hands(
    tls: &BrokerLinkTls,
    host: &str,
    stream: &mut TcpStream,
    limit: Duration,
) -> io::Result<ClientConnection> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "no certificate can be for such a host name"))?;
    let mut session = ClientConnection::new(Arc::clone(&tls.0), name).map_err(failed)?;
    session.set_buffer_limit(Some(MAX_WAITING));
    let until = Instant::now() + limit;
    while session.is_handshaking() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_long());
        }
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        step(&mut session, stream).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => too_long(),
            _ => error,
        })?;
    }
    while session.wants_write() {
        session.write_tls(stream)?;
    }
    Ok(session)
}

/// Writes the pending bytes of the handshake and reads once.
fn step(session: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(stream)?;
    }
    if !session.is_handshaking() {
        return Ok(());
    }
    if session.read_tls(stream)? == 0 {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection in the TLS handshake"));
    }
    session.process_new_packets().map(drop).map_err(|error| {
        // Sends the alert if possible; an error here adds no information.
        let _ = session.write_tls(stream);
        failed(error)
    })
}

#[expect(clippy::needless_pass_by_value, reason = "what errors are mapped with")]
fn failed(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, explain(&error))
}

fn too_long() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the TLS handshake takes too long")
}
