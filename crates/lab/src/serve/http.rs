//! As much of HTTP as a browser needs to read a few pages: one request on each connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8 * 1024;
/// How long a request and its answer may take to go over the network.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
}

/// The answer.
pub(super) struct Response {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Response {
    pub(super) fn ok(kind: &'static str, body: Vec<u8>) -> Self {
        Self { status: "200 OK", kind, body }
    }

    pub(super) fn plain(status: &'static str, text: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{text}\n").into_bytes() }
    }
}

/// Reads a request and answers it.
pub(super) fn answer(mut stream: TcpStream, respond: impl FnOnce(&Request) -> Response) {
    let limits = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    if limits.is_err() {
        return;
    }
    let request = read(&mut stream);
    let response = match &request {
        Some(request) => respond(request),
        None => Response::plain("400 Bad Request", "that is no request"),
    };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-cache\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:\r\n\r\n",
        response.status,
        response.kind,
        response.body.len()
    );
    let is_head = request.is_some_and(|request| request.method == "HEAD");
    // A client that has left needs no answer.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| if is_head { Ok(()) } else { stream.write_all(&response.body) });
}

/// The first line of a request, once its head is complete; `None` if it is invalid, or takes too long.
fn read(stream: &mut TcpStream) -> Option<Request> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > LONGEST_HEAD {
            return None;
        }
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut buffer).ok()? {
            0 => return None,
            read => head.extend_from_slice(&buffer[..read]),
        }
    }
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let path = target.split('?').next()?.to_owned();
    Some(Request { method, path })
}
