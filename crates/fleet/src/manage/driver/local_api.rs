//! The manager's own read-only HTTP endpoint on loopback, for `tidegate fleet`, scripts and Prometheus.
//!
//! | path | answer |
//! | --- | --- |
//! | `/api/v1/status` | the fleet as it is |
//! | `/api/v1/plan` | the actions that would begin now, with the reason against each |
//! | `/metrics` | metrics for Prometheus |
//! | `/healthz` | `{}` while the manager looks at its fleet, else 503 |

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_admin::Request;
use tidegate_admin::manager::{GetHealth, GetPlan, GetStatus};

/// Time for a whole request, and as much for its answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head of a request, bytes.
const MAX_HEAD: usize = 8 * 1024;
/// Connections at once; a further one is closed.
const MAX_CONNECTIONS: usize = 64;

/// The answers: the newest status, plan and metrics, and the time of the manager's last look at its fleet.
#[derive(Clone, Debug)]
pub(super) struct Shown(Arc<Mutex<Page>>);

#[derive(Debug)]
struct Page {
    status: Value,
    plan: Value,
    metrics: String,
    beat: Instant,
    /// Time without a look after which the manager counts as hanging.
    patience: Duration,
}

impl Shown {
    /// An empty page, of a manager with this time between two looks.
    pub(super) fn new(patience: Duration) -> Self {
        let page =
            Page { status: Value::Null, plan: Value::Null, metrics: String::new(), beat: Instant::now(), patience };
        Self(Arc::new(Mutex::new(page)))
    }

    fn page(&self) -> std::sync::MutexGuard<'_, Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, status: Value, plan: Value, metrics: String) {
        let mut page = self.page();
        (page.status, page.plan, page.metrics, page.beat) = (status, plan, metrics, Instant::now());
    }

    /// Status line, content type and body.
    fn get(&self, path: &str) -> Option<(&'static str, &'static str, String)> {
        let page = self.page();
        let json = |value: &Value| Some(("200 OK", "application/json", format!("{value}\n")));
        match path {
            GetStatus::ROUTE => json(&page.status),
            GetPlan::ROUTE => json(&page.plan),
            "/metrics" => Some(("200 OK", "text/plain; version=0.0.4; charset=utf-8", page.metrics.clone())),
            GetHealth::ROUTE => {
                let silent = page.beat.elapsed();
                if silent <= page.patience {
                    return json(&json!({}));
                }
                let why = format!("the manager has not looked at its fleet for {} s: restart it", silent.as_secs());
                Some(("503 Service Unavailable", "application/json", format!("{}\n", json!({"error": why}))))
            }
            _ => None,
        }
    }
}

/// A thread that takes connections.
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
            let places = Arc::new(AtomicUsize::new(0));
            for stream in listener.incoming().flatten() {
                if seen.load(Ordering::SeqCst) {
                    return;
                }
                serve(stream, &shown, &places);
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

/// A place among the connections; it is free again at its end, however that comes.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Each connection has a thread of its own, so that a silent one delays no other.
fn serve(stream: TcpStream, shown: &Shown, places: &Arc<AtomicUsize>) {
    if places.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
        places.fetch_sub(1, Ordering::SeqCst);
        tracing::debug!("too many connections to the manager");
        return;
    }
    let (place, shown) = (Place(Arc::clone(places)), shown.clone());
    let begun = thread::Builder::new().name("fleet-api-connection".to_owned()).spawn(move || {
        let _place = place;
        if let Err(error) = answer(stream, &shown) {
            tracing::debug!(%error, "a request to the manager was not answered");
        }
    });
    if let Err(error) = begun {
        tracing::debug!(%error, "no thread for a request to the manager");
    }
}

/// The head of a request, which must arrive in time as a whole; single bytes do not extend the time.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let deadline = Instant::now() + TIMEOUT;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > MAX_HEAD {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the request is too slow or too long"));
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        head.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn answer(mut stream: TcpStream, shown: &Shown) -> io::Result<()> {
    let head = head(&mut stream)?;
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let local = host
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .last()
        .is_some_and(|(_, host)| names_loopback(host.trim()));
    let error = |status, text: &str| (status, "application/json", format!("{}\n", json!({ "error": text })));
    let (status, kind, body) = match (local, method, shown.get(path)) {
        // A page in a browser whose name leads here must not read this.
        (false, ..) => error("403 Forbidden", "the request must name a loopback host, such as 127.0.0.1"),
        (_, "GET", Some(found)) => found,
        (_, "GET", None) => error("404 Not Found", "there is /api/v1/status, /api/v1/plan, /metrics and /healthz"),
        _ => error("405 Method Not Allowed", "this endpoint only answers GET"),
    };
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn names_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn local_clients_read_and_no_client_writes() {
        let shown = Shown::new(HOUR);
        shown.set(json!({"fleet": "a"}), json!({"plan": 1}), "tidegate_fleet_clients 3\n".to_owned());
        let api = LocalApi::start(0, shown).unwrap();
        let ask = |request: &str| ask(api.address(), request);
        let status = ask("GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
        assert!(status.starts_with("HTTP/1.1 200") && status.ends_with("{\"fleet\":\"a\"}\n"), "{status}");
        assert!(ask("GET /api/v1/plan HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("\"plan\":1"));
        let metrics = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(metrics.contains("text/plain") && metrics.ends_with("tidegate_fleet_clients 3\n"), "{metrics}");
        assert!(ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask("GET /api/v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.1 403"));
        assert!(ask("GET /api/v1/status HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
        let address = api.address();
        drop(api);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_silent_connection_delays_no_other() {
        let api = LocalApi::start(0, Shown::new(HOUR)).unwrap();
        let idle: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(api.address()).unwrap()).collect();
        let health = ask(api.address(), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(health.starts_with("HTTP/1.1 200"), "{health}");
        // It was answered while they were still waited for: none of them has been closed.
        for mut stream in idle {
            stream.set_nonblocking(true).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_manager_that_hangs_is_not_healthy() {
        let shown = Shown::new(HOUR);
        assert!(shown.get("/healthz").is_some_and(|(status, ..)| status == "200 OK"));
        shown.page().patience = Duration::ZERO;
        let (status, _, body) = shown.get("/healthz").unwrap();
        assert!(status.starts_with("503") && body.contains("has not looked at its fleet"), "{body}");
        shown.page().patience = HOUR;
        shown.set(Value::Null, Value::Null, String::new());
        assert!(shown.get("/healthz").is_some_and(|(status, ..)| status == "200 OK"));
    }
}
