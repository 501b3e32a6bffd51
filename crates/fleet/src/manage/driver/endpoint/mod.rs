//! HTTP endpoints of the manager, which answer GET.

#[cfg(feature = "kubernetes")]
mod tls;

#[cfg(feature = "kubernetes")]
pub(super) use tls::ServerCertificate;
// A build without TLS has no certificate.
#[cfg(not(feature = "kubernetes"))]
pub(super) use std::convert::Infallible as ServerCertificate;

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time for a whole request, and as much for its answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head of a request, bytes.
const MAX_HEAD: usize = 8 * 1024;
/// Connections of an endpoint at once; a further one is closed.
const MAX_CONNECTIONS: usize = 64;
/// Pause after a connection that could not be accepted.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The head of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Head {
    pub(super) method: String,
    /// The path, without the query.
    pub(super) path: String,
    /// The query, still escaped.
    pub(super) query: String,
    /// The header Host.
    pub(super) host: Option<String>,
}

impl Head {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let mut words = lines.next().unwrap_or_default().split_ascii_whitespace();
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
        let host = headers.filter(|(name, _)| name.eq_ignore_ascii_case("host")).last();
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            host: host.map(|(_, host)| host.trim().to_owned()),
        }
    }
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HttpAnswer {
    /// Code and reason phrase.
    pub(super) status: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

impl HttpAnswer {
    pub(super) fn json(status: &'static str, value: &Value) -> Self {
        Self { status, content_type: "application/json", body: format!("{value}\n") }
    }

    pub(super) fn error(status: &'static str, text: &str) -> Self {
        Self::json(status, &json!({ "error": text }))
    }
}

/// Computes the answers of an endpoint.
pub(super) trait Answers: Send + Sync + 'static {
    fn answer(&self, head: &Head) -> HttpAnswer;
}

/// A thread that accepts connections.
#[derive(Debug)]
pub(super) struct HttpEndpoint {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpEndpoint {
    /// Listens on an address; port 0 takes a free one.
    pub(super) fn start(
        address: SocketAddr,
        answers: Arc<dyn Answers>,
        identity: Option<Arc<ServerCertificate>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopping);
        let thread = thread::Builder::new().name("fleet-api".to_owned()).spawn(move || {
            let places = Arc::new(AtomicUsize::new(0));
            for stream in listener.incoming() {
                if seen.load(Ordering::SeqCst) {
                    return;
                }
                match stream {
                    Ok(stream) => serve(stream, &answers, identity.as_ref(), &places),
                    // Such as a lack of open files: the same error would come at once.
                    Err(_) => thread::park_timeout(AFTER_ERROR),
                }
            }
        })?;
        Ok(Self { address, stopping, thread: Some(thread) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// An address that connects to it from this machine.
    fn local(&self) -> SocketAddr {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.address.port())
    }
}

impl Drop for HttpEndpoint {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread, which then sees the flag.
        if TcpStream::connect_timeout(&self.local(), TIMEOUT).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// A slot among the connections, freed at the end of the connection.
struct ConnectionPermit(Arc<AtomicUsize>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers a connection on a new thread, so that a silent client delays no other.
fn serve(
    stream: TcpStream,
    answers: &Arc<dyn Answers>,
    identity: Option<&Arc<ServerCertificate>>,
    places: &Arc<AtomicUsize>,
) {
    if places.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
        places.fetch_sub(1, Ordering::SeqCst);
        tracing::debug!("too many connections to the manager");
        return;
    }
    let (place, answers, identity) = (ConnectionPermit(Arc::clone(places)), Arc::clone(answers), identity.cloned());
    let begun = thread::Builder::new().name("fleet-api-connection".to_owned()).spawn(move || {
        let _place = place;
        if let Err(error) = converse(stream, answers.as_ref(), identity.as_deref()) {
            tracing::debug!(%error, "a request to the manager was not answered");
        }
    });
    if let Err(error) = begun {
        tracing::debug!(%error, "no thread for a request to the manager");
    }
}

/// A connection whose reads and writes end at a deadline, however many there are.
#[derive(Debug)]
struct TimedStream {
    socket: TcpStream,
    deadline: Rc<Cell<Instant>>,
}

impl TimedStream {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.get().saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::new(io::ErrorKind::TimedOut, "the client is too slow")) } else { Ok(left) }
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

fn converse(socket: TcpStream, answers: &dyn Answers, identity: Option<&ServerCertificate>) -> io::Result<()> {
    let deadline = Rc::new(Cell::new(Instant::now() + TIMEOUT));
    let stream = TimedStream { socket, deadline: Rc::clone(&deadline) };
    match identity {
        None => exchange(stream, &deadline, answers),
        #[cfg(feature = "kubernetes")]
        Some(identity) => exchange(identity.accept(stream)?, &deadline, answers),
        #[cfg(not(feature = "kubernetes"))]
        Some(nothing) => match *nothing {},
    }
}

/// One request and its answer, each within the time.
fn exchange(mut stream: impl Read + Write, deadline: &Cell<Instant>, answers: &dyn Answers) -> io::Result<()> {
    let head = Head::parse(&read_head(&mut stream)?);
    deadline.set(Instant::now() + TIMEOUT);
    let HttpAnswer { status, content_type, body } = answers.answer(&head);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}

fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() > MAX_HEAD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too long"));
        }
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        head.extend_from_slice(buffer.get(..count).unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Sends a request and returns the whole answer.
    pub(in super::super) fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    struct Echo;

    impl Answers for Echo {
        fn answer(&self, head: &Head) -> HttpAnswer {
            HttpAnswer::error("200 OK", &format!("{} {} {} {:?}", head.method, head.path, head.query, head.host))
        }
    }

    #[test]
    fn a_silent_connection_delays_no_other() {
        let endpoint = HttpEndpoint::start((Ipv4Addr::LOCALHOST, 0).into(), Arc::new(Echo), None).unwrap();
        let idle: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(endpoint.address()).unwrap()).collect();
        let answer = ask(endpoint.address(), "GET /a?b=c HTTP/1.1\r\nhost: x:1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("GET /a b=c Some(\\\"x:1\\\")"), "{answer}");
        // The idle connections are still open.
        for mut stream in idle {
            stream.set_nonblocking(true).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn an_endpoint_on_all_addresses_stops() {
        let endpoint = HttpEndpoint::start((Ipv4Addr::UNSPECIFIED, 0).into(), Arc::new(Echo), None).unwrap();
        let address = endpoint.local();
        drop(endpoint);
        assert!(TcpStream::connect(address).is_err());
    }
}
