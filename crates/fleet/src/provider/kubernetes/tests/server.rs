//! An API server that replays recorded answers over TLS, and records its requests.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use super::super::access::{Access, Identity};

/// The server's reaction to a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// Status, further headers and body.
    Says(u16, &'static str, String),
    /// It says that there is more than it sends, and closes.
    BreaksOff(String),
    /// It is silent until the client closes.
    Stalls,
    /// It closes without an answer.
    Closes,
}

/// An expected request, with its answer.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    method: &'static str,
    path: String,
    body: Option<Value>,
    answer: Answer,
}

impl Exchange {
    pub(super) fn get(path: &str, status: u16, answer: &str) -> Self {
        Self::get_to(path, Answer::Says(status, "", answer.to_owned()))
    }

    pub(super) fn get_to(path: &str, answer: Answer) -> Self {
        Self { method: "GET", path: path.to_owned(), body: None, answer }
    }

    pub(super) fn put(path: &str, body: Value, status: u16, answer: &str) -> Self {
        let answer = Answer::Says(status, "", answer.to_owned());
        Self { method: "PUT", path: path.to_owned(), body: Some(body), answer }
    }
}

#[derive(Default)]
struct State {
    expected: VecDeque<Exchange>,
    wrong: Vec<String>,
}

/// The server.
pub(super) struct Recorded {
    address: SocketAddr,
    authority: CertificateDer<'static>,
    state: Arc<Mutex<State>>,
}

impl Recorded {
    /// Expects these requests in this order.
    pub(super) fn play(exchanges: Vec<Exchange>) -> Self {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { expected: exchanges.into(), wrong: Vec::new() }));
        let (config, noted) = (Arc::new(config), Arc::clone(&state));
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, noted) = (Arc::clone(&config), Arc::clone(&noted));
                thread::spawn(move || {
                    let tls = ServerConnection::new(config).unwrap();
                    // A client that disconnects is no failure.
                    let _ = converse(StreamOwned::new(tls, stream), &noted);
                });
            }
        });
        Self { address, authority: cert.der().clone(), state }
    }

    /// How a client gets in.
    pub(super) fn access(&self) -> Access {
        Access {
            server: format!("https://{}", self.address),
            authorities: vec![self.authority.clone()],
            identity: Identity::Token("a-token-of-the-test".to_owned()),
            namespace: None,
        }
    }

    /// All expected requests were sent, and no others.
    pub(super) fn finish(&self) {
        let state = self.state.lock().unwrap();
        assert!(state.wrong.is_empty(), "{:#?}", state.wrong);
        assert!(state.expected.is_empty(), "not asked: {:#?}", state.expected);
    }
}

fn converse(mut stream: StreamOwned<ServerConnection, TcpStream>, state: &Mutex<State>) -> io::Result<()> {
    loop {
        let Some((head, body)) = request(&mut stream)? else { return Ok(()) };
        match answer(&head, &body, state) {
            Answer::Says(status, headers, text) => {
                let length = text.len();
                write!(
                    stream,
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{text}"
                )?;
                stream.flush()?;
            }
            Answer::BreaksOff(text) => {
                write!(stream, "HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\n{text}")?;
                return stream.flush();
            }
            Answer::Stalls => {
                let _ = stream.read(&mut [0])?;
                return Ok(());
            }
            Answer::Closes => return Ok(()),
        }
    }
}

/// The head and the body of a request; `None` when the client has disconnected.
fn request(stream: &mut impl Read) -> io::Result<Option<(String, String)>> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        bytes.extend(byte);
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok(Some((head, String::from_utf8_lossy(&body).into_owned())))
}

fn answer(head: &str, body: &str, state: &Mutex<State>) -> Answer {
    let line = head.lines().next().unwrap_or_default();
    let mut state = state.lock().unwrap();
    let Some(expected) = state.expected.pop_front() else {
        state.wrong.push(format!("nothing was expected, and {line} came"));
        return Answer::Says(500, "", "{}".to_owned());
    };
    if line != format!("{} {} HTTP/1.1", expected.method, expected.path) {
        state.wrong.push(format!("expected {} {}, and {line} came", expected.method, expected.path));
    }
    if !head.to_ascii_lowercase().contains("\r\nauthorization: bearer a-token-of-the-test\r\n") {
        state.wrong.push(format!("{line} brought no token"));
    }
    if expected.body != serde_json::from_str(body).ok() {
        state.wrong.push(format!("{line} brought {body}, not {:?}", expected.body));
    }
    expected.answer
}
