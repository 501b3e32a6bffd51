//! Connections over TCP or TLS, blocking, on the thread of a sink. All reads and writes of a batch share one deadline.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tidegate_units::percent::unescape;

use super::SinkError;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Display for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl ServerAddress {
    /// Reads `HOST`, `HOST:PORT` or `[IPv6]:PORT`.
    pub(crate) fn parse(text: &str, usual_port: u16) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)?),
            _ => (text, usual_port),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_right = bare.map_or(!host.contains(':'), |host| host.contains(':'));
        let host = bare.unwrap_or(host);
        let fits = |one: char| one.is_alphanumeric() || "-_.:%".contains(one);
        (is_right && !host.is_empty() && host.chars().all(fits)).then(|| Self { host: host.to_owned(), port })
    }
}

/// An address of a service: `SCHEME://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceUrl {
    pub(crate) secure: bool,
    /// User name and password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) servers: Vec<ServerAddress>,
    /// The text behind the first slash.
    pub(crate) path: Option<String>,
}

/// Most servers of an address.
const MAX_SERVERS: usize = 32;

impl ServiceUrl {
    /// Reads an address of one of two schemes, the second one with TLS, each with its usual port. Returns nothing
    /// when the text is no such address.
    pub(crate) fn parse(text: &str, plain: (&str, u16), secure: (&str, u16)) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (is_secure, port) = match scheme {
            scheme if scheme == plain.0 => (false, plain.1),
            scheme if scheme == secure.0 => (true, secure.1),
            _ => return None,
        };
        let (rest, path) = rest.split_once('/').map_or((rest, None), |(rest, path)| (rest, Some(path)));
        let (login, servers) = match rest.rsplit_once('@') {
            Some((login, servers)) => {
                let (user, password) = login.split_once(':')?;
                (Some((unescape(user)?, unescape(password)?)), servers)
            }
            None => (None, rest),
        };
        let servers: Vec<ServerAddress> =
            servers.split(',').map(|at| ServerAddress::parse(at, port)).collect::<Option<_>>()?;
        let path = match path {
            Some(path) => Some(unescape(path)?),
            None => None,
        };
        (servers.len() <= MAX_SERVERS).then_some(Self { secure: is_secure, login, servers, path })
    }
}

/// A TCP stream whose reads and writes end at a deadline.
#[derive(Debug)]
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn remaining(&self) -> io::Result<Duration> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(remaining) }
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// When the next of `left` candidates has to have answered, so that a silent one leaves time for the others.
pub(crate) fn share_of(now: Instant, deadline: Instant, left: usize) -> Instant {
    let left = u32::try_from(left).unwrap_or(u32::MAX).max(1);
    now + deadline.saturating_duration_since(now) / left
}

/// A connection, buffered for reads. Write whole requests.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read from the stream and not taken.
    ready: std::ops::Range<usize>,
}

#[derive(Debug)]
enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

/// Bytes that are read from a stream at once.
const BUFFER: usize = 16 << 10;

impl Socket {
    /// Connects to a server, with TLS if there is a configuration of it.
    pub(crate) fn connect(
        at: &ServerAddress,
        tls: Option<&Arc<ClientConfig>>,
        deadline: Instant,
    ) -> Result<Self, SinkError> {
        let mut last = SinkError::Away(format!("the name {} has no address", at.host));
        let addresses = (at.host.as_str(), at.port).to_socket_addrs();
        let addresses = addresses.map_err(|error| SinkError::Away(format!("{}: {error}", at.host)))?;
        for (address, left) in addresses.as_slice().iter().zip((1..=addresses.len()).rev()) {
            let now = Instant::now();
            let timeout = share_of(now, deadline, left).saturating_duration_since(now).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(SinkError::away)?;
                    return Self::over(Timed { stream, deadline }, &at.host, tls);
                }
                Err(error) => last = SinkError::Away(format!("{at}: {error}")),
            }
        }
        Err(last)
    }

    fn over(stream: Timed, host: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Self, SinkError> {
        let stream = match tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned()).map_err(SinkError::away)?;
                let session = ClientConnection::new(Arc::clone(tls), name).map_err(SinkError::away)?;
                Stream::Tls(Box::new(StreamOwned::new(session, stream)))
            }
        };
        Ok(Self { stream, buffer: vec![0; BUFFER], ready: 0..0 })
    }

    /// Sets the time at which reads and writes end.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        match &mut self.stream {
            Stream::Plain(stream) => stream.deadline = deadline,
            Stream::Tls(stream) => stream.sock.deadline = deadline,
        }
    }

    /// Sends bytes, all of them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let sent = match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        sent.map_err(|error| lost(&error))
    }

    /// Waits until the server has sent something, for `limit` at most. Returns whether it has, or has closed the connection.
    pub(crate) fn has_bytes(&mut self, limit: Duration) -> Result<bool, SinkError> {
        if !self.ready.is_empty() {
            return Ok(true);
        }
        let stream = match &self.stream {
            Stream::Plain(stream) => &stream.stream,
            Stream::Tls(stream) => &stream.sock.stream,
        };
        stream.set_read_timeout(Some(limit)).map_err(SinkError::away)?;
        match stream.peek(&mut [0]) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(lost(&error)),
        }
    }

    /// Fills `into`.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Result<(), SinkError> {
        let mut filled = 0;
        while filled < into.len() {
            if self.ready.is_empty() {
                let read = match &mut self.stream {
                    Stream::Plain(stream) => stream.read(&mut self.buffer),
                    Stream::Tls(stream) => stream.read(&mut self.buffer),
                };
                match read {
                    Ok(0) => return Err(SinkError::Away("the server has closed the connection".to_owned())),
                    Ok(len) => self.ready = 0..len,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(lost(&error)),
                }
                continue;
            }
            let len = self.ready.len().min(into.len() - filled);
            into[filled..filled + len].copy_from_slice(&self.buffer[self.ready.start..self.ready.start + len]);
            self.ready.start += len;
            filled += len;
        }
        Ok(())
    }
}

fn lost(error: &io::Error) -> SinkError {
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        return SinkError::Away("the server does not answer in time".to_owned());
    }
    SinkError::away(error)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_has_servers_a_login_and_a_path() {
        let parse = |text: &str| ServiceUrl::parse(text, ("amqp", 5672), ("amqps", 5671));
        let url = parse("amqps://u%40x:p%3A@a,b:7,[::1]:8/v%2F1").unwrap();
        assert!(url.secure);
        assert_eq!(url.login, Some(("u@x".to_owned(), "p:".to_owned())));
        let servers: Vec<String> = url.servers.iter().map(ToString::to_string).collect();
        assert_eq!((servers.join(" "), url.path.as_deref()), ("a:5671 b:7 [::1]:8".to_owned(), Some("v/1")));
        assert_eq!(parse("amqp://h").unwrap().path, None);
        assert_eq!(parse("amqp://h/").unwrap().path.as_deref(), Some(""));
        for wrong in [
            "h:1",
            "http://h",
            "amqp://",
            "amqp://u@h",
            "amqp://h:0",
            "amqp://h:x",
            "amqp://h,",
            "amqp://::1",
            "amqp://h/%",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn candidates_share_the_time_that_is_left() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        assert_eq!(share_of(now, at(30), 3), at(10));
        assert_eq!(share_of(at(10), at(30), 2), at(20));
        assert_eq!(share_of(at(20), at(30), 1), at(30));
        assert_eq!(share_of(at(40), at(30), 2), at(40));
    }

    #[test]
    fn a_server_that_stalls_is_waited_for_until_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = ServerAddress { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        let deadline = || Instant::now() + Duration::from_secs(30);
        let mut socket = Socket::connect(&at, None, deadline()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"abc").unwrap();
        let mut two = [0; 2];
        socket.receive(&mut two).unwrap();
        assert_eq!(&two, b"ab");
        socket.set_deadline(Instant::now());
        let error = socket.receive(&mut two).unwrap_err();
        assert!(error.to_string().contains("in time"), "{error}");
        socket.set_deadline(deadline());
        drop(peer);
        assert!(socket.receive(&mut two).is_err());
    }
}
