//! Asks another orchestrator by its admin address.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// How long the other side may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take for a step: what was moved has to be in its store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest answer, bytes.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;

/// Why the other side has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// Nobody knows whether it was done.
    #[error("{at} does not answer: {source}")]
    Unreachable {
        /// Its admin address.
        at: String,
        /// What the system says.
        source: io::Error,
    },
    /// It was not done.
    #[error("{at} refuses: {text}")]
    Refused {
        /// Its admin address.
        at: String,
        /// What it says.
        text: String,
    },
}

/// Another orchestrator.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its admin address, `HOST:PORT`.
    pub(super) at: String,
    /// What opens its API.
    pub(super) token: Option<String>,
}

impl Peer {
    /// Makes a request and reads its answer.
    pub(super) fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Value, PeerError> {
        let unreachable = |source| PeerError::Unreachable { at: self.at.clone(), source };
        let (status, answer) = self.exchange(method, path, body).map_err(unreachable)?;
        let value: Value = serde_json::from_slice(&answer)
            .map_err(|_| unreachable(io::Error::new(io::ErrorKind::InvalidData, "the answer is no JSON")))?;
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let text = value.get("error").and_then(Value::as_str).unwrap_or("it does not say why").to_owned();
        Err(PeerError::Refused { at: self.at.clone(), text })
    }

    fn exchange(&self, method: &str, path: &str, body: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let at = self.at.strip_prefix("http://").unwrap_or(&self.at);
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\ntidegate-command: fleet\r\n");
        if let Some(token) = &self.token {
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        let _ = write!(head, "Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = connect(at)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "the answer is no HTTP");
        let split = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(strange)?;
        let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        Ok((status.ok_or_else(strange)?, answer.split_off(split + 4)))
    }
}

fn connect(at: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in at.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
