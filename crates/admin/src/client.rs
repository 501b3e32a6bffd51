//! A blocking client of the admin API.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use ureq::http;

use crate::manager::GetHealth;
use crate::ready::{ALIVE, READY, Readiness, ReadinessRequest};
use crate::request::{Body, COMMAND_HEADER, Refusal, Request};

/// Time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer, bytes.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;
/// Largest file of a token, bytes.
const MAX_TOKEN_FILE: u64 = 64 * 1024;

/// Why there is no answer to a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The text is not an admin address.
    #[error("{0:?} is no admin address: write http://HOST:PORT")]
    Address(String),
    /// No answer came. Whether the request was carried out is not known.
    #[error("no broker answers at {address}: {problem}; is it running, and is this its admin address?")]
    Unreachable {
        /// The address.
        address: String,
        /// The error of the system or of HTTP.
        problem: String,
    },
    /// The request was not carried out.
    #[error("{text}")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// Why, as the broker says.
        text: String,
    },
    /// The answer is not one of this API. Whether the request was carried out is not known.
    #[error("{address} is not the admin API of a broker: {problem}")]
    NotAdmin {
        /// The address.
        address: String,
        /// The fault of the answer.
        problem: String,
    },
}

/// A client of one admin listener. It opens a connection for each request.
#[derive(Clone, Debug)]
pub struct AdminClient {
    agent: ureq::Agent,
    /// Time for an answer.
    timeout: Duration,
    /// `HOST:PORT`.
    address: String,
    token: Option<String>,
}

impl AdminClient {
    /// A client of the admin listener at `http://HOST:PORT` or `HOST:PORT`. An answer must be complete within
    /// `timeout`.
    ///
    /// # Errors
    /// When the text is no such address.
    pub fn new(address: &str, token: Option<String>, timeout: Duration) -> Result<Self, ClientError> {
        let address = host_and_port(address).ok_or_else(|| ClientError::Address(address.to_owned()))?;
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .max_idle_connections(0)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT.min(timeout)))
            .timeout_global(Some(timeout))
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Ok(Self { agent, timeout, address: address.to_owned(), token })
    }

    /// The address, `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes a request.
    ///
    /// # Errors
    /// When no answer comes, or the request is refused.
    pub fn send<R: Request>(&self, request: &R) -> Result<R::Answer, ClientError> {
        let (status, text) = self.exchange(request)?;
        if (200..300).contains(&status) {
            return self.read(&text);
        }
        match serde_json::from_str::<Refusal>(&text) {
            Ok(refusal) => Err(ClientError::Refused { status, text: refusal.error }),
            Err(_) => Err(self.not_admin(&format!("it answers {status}"))),
        }
    }

    /// Makes a request whose answer is of the same type whether it was carried out or not.
    ///
    /// # Errors
    /// When no such answer comes.
    pub fn send_either<R: Request>(&self, request: &R) -> Result<R::Answer, ClientError> {
        let (status, text) = self.exchange(request)?;
        self.read(&text).map_err(|_| match serde_json::from_str::<Refusal>(&text) {
            Ok(refusal) => ClientError::Refused { status, text: refusal.error },
            Err(_) => self.not_admin(&format!("it answers {status}")),
        })
    }

    /// Asks whether the broker takes clients. Returns its reason if it does not.
    ///
    /// # Errors
    /// When no answer comes, or it is not that of a broker.
    pub fn readiness(&self) -> Result<Readiness, ClientError> {
        match self.exchange(&ReadinessRequest)? {
            (200, said) if said.trim() == READY => Ok(Readiness::Ready),
            (503, why) => Ok(Readiness::Not(why.trim().to_owned())),
            (200, _) => Err(self.not_admin(&format!("its answer to {} is not `{READY}`", ReadinessRequest::ROUTE))),
            (status, _) => Err(self.not_admin(&format!("it answers {status} to {}", ReadinessRequest::ROUTE))),
        }
    }

    /// Asks whether the process works, whether it takes clients or not.
    ///
    /// # Errors
    /// When no answer comes, or it is not that of a process that works.
    pub fn liveness(&self) -> Result<(), ClientError> {
        match self.exchange(&GetHealth)? {
            (200, said) if ALIVE.contains(&said.trim()) => Ok(()),
            (200, _) => Err(self.not_admin(&format!("its answer to {} is not `{}`", GetHealth::ROUTE, ALIVE[0]))),
            (status, _) => Err(self.not_admin(&format!("it answers {status} to {}", GetHealth::ROUTE))),
        }
    }

    /// Status and body of the answer.
    fn exchange<R: Request>(&self, request: &R) -> Result<(u16, String), ClientError> {
        let unreachable =
            |error| ClientError::Unreachable { address: self.address.clone(), problem: self.cause(error) };
        let mut head =
            http::Request::builder().method(R::METHOD.name()).uri(format!("http://{}{}", self.address, request.path()));
        if let Some(command) = R::COMMAND {
            head = head.header(COMMAND_HEADER, command);
        }
        if let Some(token) = &self.token {
            head = head.header("authorization", format!("Bearer {token}"));
        }
        let answered = match request.body() {
            Body::Empty => self.agent.run(self.whole(head.body(()))?),
            Body::Json(text) => self.agent.run(self.whole(head.header("content-type", "application/json").body(text))?),
            Body::Bytes(bytes) => {
                self.agent.run(self.whole(head.header("content-type", "application/octet-stream").body(bytes))?)
            }
        };
        let mut answer = answered.map_err(unreachable)?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_string().map_err(unreachable)?;
        Ok((status, text))
    }

    fn whole<B>(&self, request: Result<http::Request<B>, http::Error>) -> Result<http::Request<B>, ClientError> {
        request.map_err(|error| ClientError::Unreachable { address: self.address.clone(), problem: error.to_string() })
    }

    fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, ClientError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| match error.inner().classify() {
            Category::Data => self.not_admin(&format!("its answer is not understood: {error}")),
            Category::Syntax | Category::Eof | Category::Io => self.not_admin("its answer is no JSON"),
        })
    }

    /// The text of an error; that of the operating system stands alone.
    fn cause(&self, error: ureq::Error) -> String {
        match error {
            ureq::Error::Timeout(_) => format!("it does not answer within {} s", self.timeout.as_secs()),
            ureq::Error::Protocol(_) => "it does not speak HTTP".to_owned(),
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "it closed the connection without an answer".to_owned()
            }
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        }
    }

    fn not_admin(&self, problem: &str) -> ClientError {
        ClientError::NotAdmin { address: self.address.clone(), problem: problem.to_owned() }
    }
}

/// `HOST:PORT` of an address as people write it.
fn host_and_port(address: &str) -> Option<&str> {
    let rest = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    let (host, port) = rest.rsplit_once(':')?;
    let plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-[]:_%".contains(&byte));
    (!host.is_empty() && plain && port.parse::<u16>().is_ok()).then_some(rest)
}

/// The token in a file: its text without the space around it.
///
/// # Errors
/// When it cannot be read or is no single word.
pub fn read_token(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    tidegate_setting_file::open(path)?.take(MAX_TOKEN_FILE).read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file must hold one word, the token"));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::{ListBans, ReloadRequest};

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, address) in [
            ("http://127.0.0.1:18083", "127.0.0.1:18083"),
            ("http://127.0.0.1:18083/", "127.0.0.1:18083"),
            ("localhost:1", "localhost:1"),
            ("[::1]:18083", "[::1]:18083"),
        ] {
            assert_eq!(host_and_port(text), Some(address));
        }
        for text in ["", "host", "http://:1", "https://host:1", "host:x", "host:70000", "a\r\nb:1"] {
            assert_eq!(host_and_port(text), None, "{text}");
        }
    }

    /// Answers one request with these bytes; returns the request.
    fn answered(answer: &'static str) -> (AdminClient, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.windows(4).any(|four| four == b"\r\n\r\n") {
                let length = stream.read(&mut buffer).unwrap();
                assert!(length > 0);
                request.extend_from_slice(&buffer[..length]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap().to_lowercase()
        });
        let client = AdminClient::new(&address, Some("secret".to_owned()), Duration::from_secs(20)).unwrap();
        (client, server)
    }

    #[test]
    fn an_answer_is_read_and_a_refusal_has_its_text() {
        let (client, server) = answered("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"bans\":[]}");
        assert_eq!(client.send(&ListBans {}).unwrap().bans, []);
        let request = server.join().unwrap();
        assert!(request.starts_with("get /api/v1/bans http/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: bearer secret\r\n"), "{request}");
        let (client, server) = answered("HTTP/1.1 409 Conflict\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}");
        let refused = client.send(&ListBans {}).unwrap_err();
        assert!(matches!(&refused, ClientError::Refused { status: 409, text } if text == "no"), "{refused}");
        server.join().unwrap();
    }

    #[test]
    fn other_answers_are_no_answers() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
            "HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"bans\":1}",
            "SSH-2.0\r\n\r\n{}",
        ] {
            let (client, server) = answered(answer);
            let error = client.send(&ListBans {}).unwrap_err();
            assert!(!matches!(error, ClientError::Refused { .. }), "{answer:?}: {error}");
            server.join().unwrap();
        }
    }

    #[test]
    fn readiness_is_200_and_503_has_the_reason() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nready\n", Some(Readiness::Ready)),
            ("HTTP/1.1 503 x\r\nContent-Length: 9\r\n\r\nstarting\n", Some(Readiness::Not("starting".to_owned()))),
            ("HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", None),
        ];
        for (answer, wanted) in cases {
            let (client, server) = answered(answer);
            assert_eq!(client.readiness().ok(), wanted, "{answer}");
            assert!(server.join().unwrap().starts_with("get /readyz http/1.1\r\n"));
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_named_with_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let client = AdminClient::new(&address, None, Duration::from_secs(1)).unwrap();
        let silent = client.send(&ListBans {}).unwrap_err().to_string();
        assert!(silent.contains("it does not answer within 1 s"), "{silent}");
        let other = [("SSH-2.0\r\n\r\n", "it does not speak HTTP"), ("", "it closed the connection without an answer")];
        let html = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>";
        for (answer, said) in other.into_iter().chain([(html, "its answer is no JSON")]) {
            let (client, server) = answered(answer);
            let error = client.send(&ListBans {}).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            server.join().unwrap();
        }
    }

    #[test]
    fn a_process_that_works_answers_200_to_healthz() {
        let cases = [("200 OK", true), ("503 x", false), ("404 x", false)];
        for (status, works) in cases {
            let (client, server) = answered(format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nok\n").leak());
            assert_eq!(client.liveness().is_ok(), works, "{status}");
            assert!(server.join().unwrap().starts_with("get /healthz http/1.1\r\n"));
        }
        let (client, server) = answered("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        assert!(client.liveness().is_ok(), "a manager");
        server.join().unwrap();
        let (client, server) = answered("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>");
        assert!(client.liveness().is_err(), "a server of another kind");
        server.join().unwrap();
    }

    #[test]
    fn a_reload_that_is_refused_says_why() {
        let answer = "HTTP/1.1 409 Conflict\r\nContent-Length: 30\r\n\r\n{\"applied\":false,\"text\":\"bad\"} ";
        let (client, server) = answered(answer);
        let outcome = client.send_either(&ReloadRequest).unwrap();
        assert_eq!((outcome.applied, outcome.text.as_str()), (false, "bad"));
        assert!(server.join().unwrap().contains("tidegate-command: reload\r\n"));
    }
}
