//! The protocol of NATS: lines of text, and payloads between them.

use serde_json::json;

use super::{Driver, Problem, Role, Sink};
use crate::load::plan::Credentials;

/// The longest line, in bytes; INFO is the longest there is.
const LONGEST_LINE: usize = 64 * 1024;

/// A connection.
pub(super) struct Nats {
    subject: String,
    connect: String,
    role: Role,
    is_ready: bool,
    product: Option<String>,
}

impl Nats {
    pub(super) fn new(subject: &str, credentials: Option<&Credentials>, role: Role) -> Self {
        let mut connect = json!({
            "verbose": false, "pedantic": false, "tls_required": false, "echo": true,
            "lang": "rust", "version": "1", "name": "tidegate-lab", "protocol": 0,
        });
        if let Some(credentials) = credentials {
            connect["user"] = credentials.username.clone().into();
            connect["pass"] = credentials.password.clone().into();
        }
        Self { subject: subject.to_owned(), connect: connect.to_string(), role, is_ready: false, product: None }
    }

    fn on_info(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("CONNECT {}\r\n", self.connect).as_bytes());
        if self.role == Role::Subscribe {
            out.extend_from_slice(format!("SUB {} 1\r\n", self.subject).as_bytes());
        }
        // The answer says that all before has been worked on.
        out.extend_from_slice(b"PING\r\n");
    }
}

/// The server's version in INFO.
fn version(info: &[u8]) -> Option<String> {
    let info: serde_json::Value = serde_json::from_slice(info).ok()?;
    Some(format!("NATS {}", info.get("version")?.as_str()?))
}

impl Driver for Nats {
    /// The server sends first.
    fn opened(&mut self, _: &mut Vec<u8>) {}

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut taken = 0;
        while let Some(end) = bytes[taken..].iter().position(|byte| *byte == b'\n') {
            let line = bytes[taken..taken + end].trim_ascii();
            let mut behind = taken + end + 1;
            if let Some(head) = line.strip_prefix(b"MSG ") {
                let size = head.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                let size: usize = std::str::from_utf8(size)
                    .ok()
                    .and_then(|size| size.parse().ok())
                    .ok_or_else(|| Problem::new("MSG without a size"))?;
                let Some(payload) = bytes.get(behind..behind.saturating_add(size).saturating_add(2)) else { break };
                sink.message(&payload[..size]);
                behind += size + 2;
            } else if let Some(info) = line.strip_prefix(b"INFO ") {
                if !self.is_ready {
                    self.product = version(info);
                    self.on_info(out);
                }
            } else if line == b"PONG" {
                self.is_ready = true;
            } else if line == b"PING" {
                out.extend_from_slice(b"PONG\r\n");
            } else if line.starts_with(b"-ERR") {
                let text = String::from_utf8_lossy(line);
                let hint =
                    if text.contains("uthori") { "; check user and password: nats://USER:PASSWORD@HOST" } else { "" };
                return Err(Problem::new(format!("{text}{hint}")));
            }
            taken = behind;
        }
        let line_len = bytes.len() - taken;
        if line_len > LONGEST_LINE && !bytes[taken..].starts_with(b"MSG ") {
            return Err(Problem::new("a line does not end"));
        }
        Ok(taken)
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn product(&self) -> Option<String> {
        self.product.clone()
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"PUB ");
        out.extend_from_slice(self.subject.as_bytes());
        out.extend_from_slice(format!(" {}\r\n", payload.len()).as_bytes());
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{Noted, feed};
    use super::*;

    #[test]
    fn a_subscriber_is_ready_when_its_ping_is_answered() {
        for piece in [1, 3, 1000] {
            let (mut driver, mut noted) = (Nats::new("a.b", None, Role::Subscribe), Noted::default());
            let said = feed(&mut driver, b"INFO {\"version\":\"2\"}\r\n", piece, &mut noted);
            let said = String::from_utf8(said).unwrap();
            assert!(said.starts_with("CONNECT {") && said.ends_with("}\r\nSUB a.b 1\r\nPING\r\n"), "{said}");
            assert!(!driver.is_ready());
            assert_eq!(driver.product().as_deref(), Some("NATS 2"));
            let stream = b"PONG\r\nMSG a.b 1 4\r\n\r\nhi\r\nPING\r\nMSG a.b 1 reply 0\r\n\r\n";
            assert_eq!(feed(&mut driver, stream, piece, &mut noted), b"PONG\r\n");
            assert!(driver.is_ready());
            assert_eq!(noted.messages, [b"\r\nhi".to_vec(), Vec::new()]);
        }
    }

    #[test]
    fn a_message_is_a_line_and_a_payload() {
        let mut out = Vec::new();
        Nats::new("a", None, Role::Publish).publish(b"xyz", &mut out);
        assert_eq!(out, b"PUB a 3\r\nxyz\r\n");
    }

    #[test]
    fn an_error_ends_the_connection() {
        let mut driver = Nats::new("a", None, Role::Publish);
        let wrong = driver.received(b"-ERR 'Authorization Violation'\r\n", &mut Vec::new(), &mut Noted::default());
        let told = "-ERR 'Authorization Violation'; check user and password: nats://USER:PASSWORD@HOST";
        assert_eq!(wrong, Err(Problem::new(told)));
    }
}
