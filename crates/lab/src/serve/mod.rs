//! Directories of runs, to be browsed: a page that lists them, and their reports and results. Nothing can be changed by
//! it.

mod http;
mod index;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::stop::Stop;
use http::{Request, Response};

/// Requests that are answered at a time; further ones are refused.
const AT_A_TIME: usize = 16;
/// Interval of checks for a stop.
const LOOK: Duration = Duration::from_millis(50);

/// A file of a directory of runs, with its type.
const FILES: [(&str, &str); 3] = [
    ("report.html", "text/html; charset=utf-8"),
    ("results.json", "application/json"),
    ("results.csv", "text/csv; charset=utf-8"),
];

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    directory: Arc<PathBuf>,
}

impl Server {
    /// Listens, to serve a directory of runs, or one with such subdirectories.
    ///
    /// # Errors
    /// If the directory does not exist, or the address cannot be listened on.
    pub fn bind(directory: &Path, address: SocketAddr) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        if !directory.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, directory: Arc::new(directory) })
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the stop.
    ///
    /// # Errors
    /// When the system takes the listener away.
    pub fn run(&self, stop: &Stop) -> io::Result<()> {
        let busy = Arc::new(AtomicUsize::new(0));
        while !stop.is_asked() {
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream, &busy),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => drop(stop.wait(LOOK)),
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn begin(&self, stream: TcpStream, busy: &Arc<AtomicUsize>) {
        if busy.fetch_add(1, Ordering::Relaxed) >= AT_A_TIME {
            busy.fetch_sub(1, Ordering::Relaxed);
            http::answer(stream, |_| Response::plain("503 Service Unavailable", "busy: try again"));
            return;
        }
        let (directory, done) = (Arc::clone(&self.directory), Arc::clone(busy));
        let thread = std::thread::Builder::new().name("serve".to_owned()).spawn(move || {
            http::answer(stream, |request| respond(&directory, request));
            done.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The answer to a request: the list, or one of a few files of a directory that the list has. No other path leads
/// anywhere.
fn respond(directory: &Path, request: &Request) -> Response {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Response::plain("405 Method Not Allowed", "only GET and HEAD");
    }
    if request.path == "/" {
        return Response::ok("text/html; charset=utf-8", index::page(directory).into_bytes());
    }
    let missing = || Response::plain("404 Not Found", "there is no such page");
    let Some((name, file)) = request.path.strip_prefix("/runs/").and_then(|rest| rest.rsplit_once('/')) else {
        return missing();
    };
    let Some((file, kind)) = FILES.iter().find(|(known, _)| *known == file) else { return missing() };
    let Some(series) = index::series(directory).into_iter().find(|series| series.name == name) else {
        return missing();
    };
    std::fs::read(series.directory.join(file)).map_or_else(|_| missing(), |bytes| Response::ok(kind, bytes))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn runs_are_listed_and_nothing_else_is_given_away() {
        let folder = std::env::temp_dir().join(format!("tidegate-lab-serve-{}", std::process::id()));
        let runs = folder.join("first");
        std::fs::create_dir_all(runs.join("runs")).unwrap();
        std::fs::write(folder.join("secret.txt"), "secret").unwrap();
        std::fs::write(runs.join("report.html"), "the report").unwrap();
        std::fs::write(runs.join("series.json"), "{\"scenario\":{\"title\":\"A <title>\"}}").unwrap();
        let server = Server::bind(&folder, "127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, stop) = (server.address().unwrap(), Stop::default());
        std::thread::scope(|scope| {
            scope.spawn(|| server.run(&stop));
            let list = get(address, "/");
            assert!(list.starts_with("HTTP/1.1 200 OK") && list.contains("/runs/first/report.html"), "{list}");
            assert!(list.contains("A &lt;title&gt;"), "{list}");
            assert!(get(address, "/runs/first/report.html").ends_with("\r\n\r\nthe report"));
            for wrong in
                ["/runs/first/series.json", "/runs/../secret.txt", "/secret.txt", "/runs/first/../../secret.txt"]
            {
                assert!(get(address, wrong).starts_with("HTTP/1.1 404"), "{wrong}");
            }
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"DELETE / HTTP/1.1\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 405"), "{text}");
            stop.ask();
        });
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
