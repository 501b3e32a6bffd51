//! A server for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

/// A server on a local port that gives prepared answers and reports the requests.
pub(crate) struct FakeServer {
    address: SocketAddr,
    pub(crate) answers: Sender<String>,
    pub(crate) questions: Receiver<Question>,
}

pub(crate) struct Question {
    /// In lower case.
    pub(crate) head: String,
    /// `null` for an empty body.
    pub(crate) body: Value,
    /// The connection it came on, counted from 1.
    pub(crate) connection: u32,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (answers, to_give) = channel();
        let (asked, questions) = channel();
        std::thread::spawn(move || {
            for (number, stream) in (1..).zip(listener.incoming()) {
                if serve(&stream.unwrap(), number, &to_give, &asked).is_none() {
                    return;
                }
            }
        });
        Self { address, answers, questions }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Lays an answer ready.
    pub(crate) fn answer(&self, status: u16, body: &str) {
        let length = body.len();
        self.answers.send(format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}")).unwrap();
    }
}

/// Serves one connection until the client closes it, an empty answer is next, or the test ends.
fn serve(stream: &TcpStream, connection: u32, answers: &Receiver<String>, asked: &Sender<Question>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return Some(());
            }
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        asked.send(Question { head, body: serde_json::from_slice(&body).unwrap_or_default(), connection }).ok()?;
        let answer = answers.recv().ok()?;
        if answer.is_empty() {
            return Some(());
        }
        let mut stream = stream;
        stream.write_all(answer.as_bytes()).unwrap();
    }
}
