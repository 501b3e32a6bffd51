//! Talks to the admin API of a running broker.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

/// Time for connecting, and between two pieces of an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Longest answer, bytes.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

/// Largest file of a token, bytes.
const MAX_TOKEN_FILE: u64 = 64 * 1024;

/// Where the admin API is, and what opens it.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminArgs {
    /// The broker's admin address, as its line that says "ready" names it
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:18083")]
    pub(crate) admin: String,

    /// File with the token of the broker's `admin.token_file`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Why the broker gave no answer that is of use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    /// Not an address.
    #[error("{0:?} is no admin address: write http://HOST:PORT")]
    Address(String),
    /// Nobody answers.
    #[error("no broker answers at {address}: {source}; is it running, and is `--admin` its admin address?")]
    Unreachable {
        /// The address.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The token cannot be read.
    #[error("cannot read the token in {}: {source}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The broker refuses.
    #[error("{0}")]
    Refused(String),
    /// Something else than a broker answered.
    #[error("what answers at {0} is no admin API of a broker: {1}")]
    Strange(String, String),
}

impl AdminArgs {
    /// Makes a request and reads its answer.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, AdminError> {
        self.request_with("", method, path, body)
    }

    /// Makes a request that changes a fleet.
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub(crate) fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, AdminError> {
        self.request_with("Tidegate-Command: fleet\r\n", method, path, body)
    }

    fn request_with(&self, headers: &str, method: &str, path: &str, body: Option<&Value>) -> Result<Value, AdminError> {
        let address = self.address()?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}");
        if let Some(token) = self.token()? {
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let _ = write!(head, "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answer = exchange(&address, head.as_bytes())
            .map_err(|source| AdminError::Unreachable { address: address.clone(), source })?;
        read_answer(&address, &answer)
    }

    /// `HOST:PORT`.
    fn address(&self) -> Result<String, AdminError> {
        let wrong = || AdminError::Address(self.admin.clone());
        let rest = self.admin.strip_prefix("http://").unwrap_or(&self.admin).trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-[]:_%".contains(&byte));
        if host.is_empty() || !plain || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(rest.to_owned())
    }

    fn token(&self) -> Result<Option<String>, AdminError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        read_token(path).map(Some).map_err(|source| AdminError::Token { path: path.clone(), source })
    }
}

/// The token in a file: its text without the space around it.
///
/// # Errors
/// When it cannot be read or is no text.
pub(crate) fn read_token(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_TOKEN_FILE).read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file must hold one word, the token"));
    }
    Ok(token.to_owned())
}

fn exchange(address: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for at in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, PATIENCE) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.write_all(request)?;
                let mut answer = Vec::new();
                stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
                return Ok(answer);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The body of an answer, which is JSON; a refusal is an error with its text.
fn read_answer(address: &str, answer: &[u8]) -> Result<Value, AdminError> {
    let strange = |what: &str| AdminError::Strange(address.to_owned(), what.to_owned());
    let text = std::str::from_utf8(answer).map_err(|_| strange("the answer is no text"))?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| strange("the answer is no HTTP"))?;
    let status: u16 = head
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| strange("the answer is no HTTP"))?;
    let value: Value = match serde_json::from_str(body) {
        Ok(value) => value,
        Err(_) => return Err(strange(&format!("it answers {status} without JSON"))),
    };
    if (200..300).contains(&status) {
        return Ok(value);
    }
    let text = value.get("error").and_then(Value::as_str).ok_or_else(|| strange(&format!("it answers {status}")))?;
    Err(AdminError::Refused(text.to_owned()))
}

/// A name as part of a query.
pub(crate) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// A text of a peer for a terminal: nothing in it moves the cursor or colours what follows.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A time in milliseconds since 1970, in this machine's time zone.
pub(crate) fn time(millis: u64) -> String {
    let time = i64::try_from(millis).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    match time {
        Some(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(admin: &str) -> AdminArgs {
        AdminArgs { admin: admin.to_owned(), token_file: None }
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, address) in [
            ("http://127.0.0.1:18083", "127.0.0.1:18083"),
            ("http://127.0.0.1:18083/", "127.0.0.1:18083"),
            ("localhost:1", "localhost:1"),
            ("[::1]:18083", "[::1]:18083"),
        ] {
            assert_eq!(args(text).address().unwrap(), address);
        }
        for text in ["", "host", "http://:1", "https://host:1", "host:x", "host:70000", "a\r\nb:1"] {
            assert!(args(text).address().is_err(), "{text}");
        }
    }

    #[test]
    fn an_answer_is_its_body_or_its_error() {
        let read = |answer: &str| read_answer("here", answer.as_bytes());
        assert_eq!(read("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"a\":1}\n").unwrap()["a"], 1);
        let refused = read("HTTP/1.1 409 Conflict\r\nA: b\r\n\r\n{\"error\":\"no\"}").unwrap_err();
        assert_eq!(refused.to_string(), "no");
        for strange in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\n\r\n<html>",
            "SSH-2.0\r\n\r\n{}",
            "HTTP/1.1 500 x\r\n\r\n{}",
        ] {
            assert!(matches!(read(strange), Err(AdminError::Strange(..))), "{strange:?}");
        }
    }

    #[test]
    fn names_are_escaped_for_queries_and_terminals() {
        assert_eq!(escape("a b/ü&="), "a%20b%2F%C3%BC%26%3D");
        assert_eq!(shown("a\u{1b}[31m\nü"), "a\\u{1b}[31m\\nü");
    }
}
