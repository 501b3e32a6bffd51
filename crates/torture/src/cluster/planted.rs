//! Nodes of a few lines for tests: they serve and say that they are ready as a test wants, also against each other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Hands each connection to a separate thread. Gives the port.
fn listen(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

/// Answers CONNECT and PUBLISH while it serves; refuses clients otherwise. Gives its port.
pub(super) fn server(serves: Arc<AtomicBool>) -> u16 {
    listen(move |stream| answer(stream, &serves))
}

fn answer(mut stream: TcpStream, serves: &AtomicBool) {
    let mut head = [0; 2];
    while stream.read_exact(&mut head).is_ok() {
        let mut rest = vec![0; usize::from(head[1])];
        let refused = !serves.load(Ordering::Relaxed);
        let answer = match head[0] >> 4 {
            1 => [0x20, 2, 0, if refused { 3 } else { 0 }],
            3 if !refused => [0x40, 2, 0, 1],
            _ => return,
        };
        if stream.read_exact(&mut rest).is_err() || stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Says in `/readyz` whether it is ready. Gives its port.
pub(super) fn admin(is_ready: Arc<AtomicBool>) -> u16 {
    listen(move |mut stream| {
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        if lines.any(|line| line.is_empty()) {
            let status = if is_ready.load(Ordering::Relaxed) { "200 OK" } else { "503 Service Unavailable" };
            // The observer may have left.
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n").as_bytes());
        }
    })
}
