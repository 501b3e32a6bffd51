//! The manager's own HTTP endpoint on loopback: what it knows, for `tidegate fleet` and scripts. It changes nothing.
//!
//! | path | what it answers |
//! | --- | --- |
//! | `/api/v1/status` | the fleet as it is |
//! | `/api/v1/plan` | what would be done now, and why not |
//! | `/healthz` | `{}` while the manager works |

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

/// Time for a request and for its answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head of a request, bytes.
const MAX_HEAD: u64 = 8 * 1024;

/// What is answered: the newest status and plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(Arc<Mutex<(Value, Value)>>);

impl Shown {
    pub(super) fn set(&self, status: Value, plan: Value) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (status, plan);
    }

    fn get(&self, path: &str) -> Option<Value> {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match path {
            "/api/v1/status" => Some(shown.0.clone()),
            "/api/v1/plan" => Some(shown.1.clone()),
            "/healthz" => Some(json!({})),
            _ => None,
        }
    }
}

/// A thread that answers.
#[derive(Debug)]
pub(super) struct LocalApi {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LocalApi {
    /// Listens on a free port of loopback, or on the given one.
    pub(super) fn start(port: u16, shown: Shown) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopping);
        let thread = thread::Builder::new().name("fleet-api".to_owned()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if seen.load(Ordering::SeqCst) {
                    return;
                }
                // One after the other: each has little time, and nothing to wait for.
                if let Err(error) = answer(stream, &shown) {
                    tracing::debug!(%error, "a request to the manager was not answered");
                }
            }
        })?;
        Ok(Self { address, stopping, thread: Some(thread) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for LocalApi {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread, which then sees that it is over.
        if TcpStream::connect_timeout(&self.address, TIMEOUT).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn answer(stream: TcpStream, shown: &Shown) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(stream.take(MAX_HEAD));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut local = false;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            local = names_loopback(value.trim());
        }
    }
    let (status, body) = match (local, method.as_str(), shown.get(&path)) {
        // A page in a browser whose name leads here must not read this.
        (false, ..) => ("403 Forbidden", json!({"error": "the request must name a loopback host, such as 127.0.0.1"})),
        (_, "GET", Some(value)) => ("200 OK", value),
        (_, "GET", None) => ("404 Not Found", json!({"error": "there is /api/v1/status, /api/v1/plan and /healthz"})),
        _ => ("405 Method Not Allowed", json!({"error": "this endpoint only answers GET"})),
    };
    let text = format!("{body}\n");
    let mut stream = reader.into_inner().into_inner();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
}

fn names_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn this_machine_reads_and_nobody_writes() {
        let shown = Shown::default();
        shown.set(json!({"fleet": "a"}), json!({"plan": 1}));
        let api = LocalApi::start(0, shown).unwrap();
        let ask = |request: &str| ask(api.address(), request);
        let status = ask("GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
        assert!(status.starts_with("HTTP/1.1 200") && status.ends_with("{\"fleet\":\"a\"}\n"), "{status}");
        assert!(ask("GET /api/v1/plan HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("\"plan\":1"));
        assert!(ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask("GET /api/v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.1 403"));
        assert!(ask("GET /api/v1/status HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
        let address = api.address();
        drop(api);
        assert!(TcpStream::connect(address).is_err());
    }
}
