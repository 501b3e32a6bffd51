//! Addresses of listeners, as a person writes them.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Default path of WebSocket listeners, as most clients expect it.
pub const DEFAULT_WEBSOCKET_PATH: &str = "/mqtt";

/// The address of a listener: `HOST:PORT` or `tcp://HOST:PORT`, `mqtts://HOST:PORT` (also `tls://` and `ssl://`),
/// `ws://HOST:PORT[/PATH]`, `wss://HOST:PORT[/PATH]`, `quic://HOST:PORT`, `http://HOST:PORT`, `https://HOST:PORT`,
/// `coap://HOST:PORT`, `coaps://HOST:PORT`, or `unix:/PATH`.
///
/// A host may be a name, an IPv4 address or an IPv6 address in brackets; names are resolved when the listener starts.
/// Port 0 lets the system choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// MQTT over TCP.
    Tcp(HostPort),
    /// MQTT over TLS over TCP.
    Tls(HostPort),
    /// MQTT over WebSocket over TCP.
    WebSocket {
        /// The address to listen on.
        at: HostPort,
        /// The one request path that is served; starts with `/`.
        path: String,
    },
    /// MQTT over WebSocket over TLS over TCP.
    WebSocketTls {
        /// The address to listen on.
        at: HostPort,
        /// The one request path that is served; starts with `/`.
        path: String,
    },
    /// MQTT over QUIC, which is over UDP.
    Quic(HostPort),
    /// MQTT over a Unix domain socket.
    Unix(PathBuf),
    /// HTTP. The node listens on no socket: another part of the process does, and [`connects`] its clients.
    ///
    /// [`connects`]: crate::Inlet::connect
    Http(HostPort),
    /// The same over TLS.
    Https(HostPort),
    /// CoAP over UDP, which another part of the process serves, too.
    Coap(HostPort),
    /// The same over DTLS.
    Coaps(HostPort),
    /// Parts of this process. There is no socket: they [`connect`] themselves.
    ///
    /// [`connect`]: crate::NodeInsiders::connect
    Process,
}

/// A host and a port, not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Name or address; an IPv6 address is without its brackets.
    pub host: String,
    /// Port, 0 for one that the system chooses.
    pub port: u16,
}

/// Why a text is no listener address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither host and port nor a known scheme.
    #[error(
        "`{0}` is no listener address: write HOST:PORT, mqtts://HOST:PORT, ws://HOST:PORT/PATH, wss://HOST:PORT/PATH, quic://HOST:PORT, http://HOST:PORT, https://HOST:PORT, coap://HOST:PORT, coaps://HOST:PORT or unix:/PATH"
    )]
    Form(String),
    /// A scheme that this build does not serve.
    #[error(
        "`{scheme}` in `{text}` is not served: use tcp://, mqtts://, ws://, wss://, quic://, http://, https://, coap://, coaps:// or unix:"
    )]
    Scheme {
        /// The unknown scheme.
        scheme: String,
        /// The whole text.
        text: String,
    },
    /// A number above 65,535.
    #[error("the port {port} in `{text}` is too large: use a number from 0 (the system chooses) to 65535")]
    LargePort {
        /// The text in place of the port.
        port: String,
        /// The whole text.
        text: String,
    },
    /// The port is not a number.
    #[error("`{port}` in `{text}` is no port: use a number from 0 (the system chooses) to 65535")]
    Port {
        /// The text in place of the port.
        port: String,
        /// The whole text.
        text: String,
    },
    /// An IPv6 address without brackets.
    #[error("`{0}` has several colons: put an IPv6 address into brackets, as in [::1]:1883")]
    Brackets(String),
    /// A path where no path is allowed.
    #[error("`{0}` has a path; only ws://, wss:// and unix: addresses have one")]
    Path(String),
    /// A Unix socket without a path.
    #[error("`{0}` names no file: write unix:/PATH")]
    NoFile(String),
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/x` is the same file as `unix:/run/x`.
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(AddressError::NoFile(text.into()));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        match text.split_once("://") {
            None => Ok(Self::Tcp(without_path(text, text)?)),
            Some(("tcp" | "mqtt", rest)) => Ok(Self::Tcp(without_path(rest, text)?)),
            Some(("tls" | "mqtts" | "ssl", rest)) => Ok(Self::Tls(without_path(rest, text)?)),
            Some(("http", rest)) => Ok(Self::Http(without_path(rest, text)?)),
            Some(("https", rest)) => Ok(Self::Https(without_path(rest, text)?)),
            Some(("coap", rest)) => Ok(Self::Coap(without_path(rest, text)?)),
            Some(("coaps", rest)) => Ok(Self::Coaps(without_path(rest, text)?)),
            Some(("quic", rest)) => Ok(Self::Quic(without_path(rest, text)?)),
            Some(("ws", rest)) => {
                let (at, path) = with_path(rest, text)?;
                Ok(Self::WebSocket { at, path })
            }
            Some(("wss", rest)) => {
                let (at, path) = with_path(rest, text)?;
                Ok(Self::WebSocketTls { at, path })
            }
            Some((scheme, _)) => Err(AddressError::Scheme { scheme: format!("{scheme}://"), text: text.into() }),
        }
    }
}

fn without_path(rest: &str, text: &str) -> Result<HostPort, AddressError> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('/') { Err(AddressError::Path(text.into())) } else { host_port(rest, text) }
}

fn with_path(rest: &str, text: &str) -> Result<(HostPort, String), AddressError> {
    let (authority, path) = match rest.find('/') {
        Some(slash) if slash + 1 < rest.len() => rest.split_at(slash),
        Some(slash) => (&rest[..slash], "/"),
        None => (rest, DEFAULT_WEBSOCKET_PATH),
    };
    Ok((host_port(authority, text)?, path.into()))
}

fn host_port(authority: &str, text: &str) -> Result<HostPort, AddressError> {
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let too_large = |port: &str| AddressError::LargePort { port: port.into(), text: text.into() };
    let Some((host, port)) = authority.rsplit_once(':') else {
        let large = is_number(authority) && authority.parse::<u16>().is_err();
        return Err(if large { too_large(authority) } else { AddressError::Form(text.into()) });
    };
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(|| AddressError::Form(text.into()))?,
        None if host.contains(':') => return Err(AddressError::Brackets(text.into())),
        None => host,
    };
    if host.is_empty() {
        return Err(AddressError::Form(text.into()));
    }
    // `u16::from_str` accepts a sign.
    if !is_number(port) {
        return Err(AddressError::Port { port: port.into(), text: text.into() });
    }
    let port = port.parse().map_err(|_| too_large(port))?;
    Ok(HostPort { host: host.into(), port })
}

impl HostPort {
    /// All addresses of the host.
    ///
    /// # Errors
    /// When the name cannot be resolved.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// Whether only this machine can reach the address: a loopback address or the name `localhost`.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<std::net::IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl ListenAddress {
    /// Its host and port, unless it is a file.
    pub fn host_port(&self) -> Option<&HostPort> {
        match self {
            Self::Tcp(at)
            | Self::Tls(at)
            | Self::WebSocket { at, .. }
            | Self::WebSocketTls { at, .. }
            | Self::Http(at)
            | Self::Https(at)
            | Self::Coap(at)
            | Self::Coaps(at)
            | Self::Quic(at) => Some(at),
            Self::Unix(_) | Self::Process => None,
        }
    }

    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        self.host_port().is_none_or(HostPort::is_loopback)
    }

    /// Whether TLS is spoken there.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::WebSocketTls { .. } | Self::Quic(_) | Self::Https(_))
    }

    /// Whether CoAP is spoken there, and no MQTT.
    pub fn is_coap(&self) -> bool {
        matches!(self, Self::Coap(_) | Self::Coaps(_))
    }

    /// Whether WebSocket is spoken there.
    pub fn is_websocket(&self) -> bool {
        matches!(self, Self::WebSocket { .. } | Self::WebSocketTls { .. })
    }

    /// Whether HTTP is spoken there, and no MQTT.
    pub fn is_http(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Https(_))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => at.fmt(f),
            Self::Tls(at) => write!(f, "mqtts://{at}"),
            Self::WebSocket { at, path } => write!(f, "ws://{at}{path}"),
            Self::WebSocketTls { at, path } => write!(f, "wss://{at}{path}"),
            Self::Quic(at) => write!(f, "quic://{at}"),
            Self::Http(at) => write!(f, "http://{at}"),
            Self::Https(at) => write!(f, "https://{at}"),
            Self::Coap(at) => write!(f, "coap://{at}"),
            Self::Coaps(at) => write!(f, "coaps://{at}"),
            Self::Process => f.write_str("this process"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address that is listened on, with the port that the system chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// MQTT over TCP.
    Tcp(SocketAddr),
    /// MQTT over TLS.
    Tls(SocketAddr),
    /// MQTT over WebSocket.
    WebSocket(SocketAddr, String),
    /// MQTT over WebSocket over TLS.
    WebSocketTls(SocketAddr, String),
    /// MQTT over QUIC.
    Quic(SocketAddr),
    /// MQTT over a Unix domain socket.
    Unix(PathBuf),
}

impl LocalAddress {
    /// The socket address, unless it is a file.
    pub fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(at) | Self::Tls(at) | Self::WebSocket(at, _) | Self::WebSocketTls(at, _) | Self::Quic(at) => {
                Some(*at)
            }
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => at.fmt(f),
            Self::Tls(at) => write!(f, "mqtts://{at}"),
            Self::WebSocket(at, path) => write!(f, "ws://{at}{path}"),
            Self::WebSocketTls(at, path) => write!(f, "wss://{at}{path}"),
            Self::Quic(at) => write!(f, "quic://{at}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> ListenAddress {
        ListenAddress::Tcp(HostPort { host: host.into(), port })
    }

    fn tls(host: &str, port: u16) -> ListenAddress {
        ListenAddress::Tls(HostPort { host: host.into(), port })
    }

    fn wss(host: &str, port: u16, path: &str) -> ListenAddress {
        ListenAddress::WebSocketTls { at: HostPort { host: host.into(), port }, path: path.into() }
    }

    fn web(host: &str, port: u16, path: &str) -> ListenAddress {
        ListenAddress::WebSocket { at: HostPort { host: host.into(), port }, path: path.into() }
    }

    #[test]
    fn every_form_is_read_and_written() {
        let cases = [
            ("127.0.0.1:1883", tcp("127.0.0.1", 1883), "127.0.0.1:1883"),
            ("tcp://localhost:0", tcp("localhost", 0), "localhost:0"),
            ("mqtt://0.0.0.0:1883/", tcp("0.0.0.0", 1883), "0.0.0.0:1883"),
            ("[::1]:1883", tcp("::1", 1883), "[::1]:1883"),
            ("ws://127.0.0.1:8080", web("127.0.0.1", 8080, "/mqtt"), "ws://127.0.0.1:8080/mqtt"),
            ("ws://[::]:8080/a/b", web("::", 8080, "/a/b"), "ws://[::]:8080/a/b"),
            ("ws://h:8080/", web("h", 8080, "/"), "ws://h:8080/"),
            ("mqtts://0.0.0.0:8883", tls("0.0.0.0", 8883), "mqtts://0.0.0.0:8883"),
            ("tls://h:8883/", tls("h", 8883), "mqtts://h:8883"),
            ("ssl://[::]:8883", tls("::", 8883), "mqtts://[::]:8883"),
            ("wss://h:443", wss("h", 443, "/mqtt"), "wss://h:443/mqtt"),
            ("wss://h:443/a", wss("h", 443, "/a"), "wss://h:443/a"),
            ("quic://h:14567", ListenAddress::Quic(HostPort { host: "h".into(), port: 14567 }), "quic://h:14567"),
            ("http://h:8080/", ListenAddress::Http(HostPort { host: "h".into(), port: 8080 }), "http://h:8080"),
            ("https://h:8443", ListenAddress::Https(HostPort { host: "h".into(), port: 8443 }), "https://h:8443"),
            ("coap://h:5683/", ListenAddress::Coap(HostPort { host: "h".into(), port: 5683 }), "coap://h:5683"),
            ("coaps://h:5684", ListenAddress::Coaps(HostPort { host: "h".into(), port: 5684 }), "coaps://h:5684"),
            ("unix:/run/t.sock", ListenAddress::Unix("/run/t.sock".into()), "unix:/run/t.sock"),
            ("unix:///run/t.sock", ListenAddress::Unix("/run/t.sock".into()), "unix:/run/t.sock"),
            ("unix:t.sock", ListenAddress::Unix("t.sock".into()), "unix:t.sock"),
        ];
        for (text, address, shown) in cases {
            assert_eq!(text.parse(), Ok(address.clone()), "{text}");
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address), "{shown}");
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_a_fix() {
        let cases = [
            ("1883", "is no listener address: write HOST:PORT"),
            (":1883", "is no listener address"),
            ("[::1:1883", "is no listener address"),
            ("::1:1883", "put an IPv6 address into brackets"),
            ("localhost:mqtt", "`mqtt` in `localhost:mqtt` is no port"),
            ("localhost:65536", "the port 65536 in `localhost:65536` is too large"),
            ("99999", "the port 99999 in `99999` is too large: use a number from 0"),
            ("localhost:+1", "is no port"),
            ("localhost:1883/mqtt", "has a path"),
            ("mqtts://localhost:1883/x", "has a path"),
            ("sctp://localhost:1883", "`sctp://` in `sctp://localhost:1883` is not served"),
            ("quic://localhost:1883/x", "has a path"),
            ("unix:", "names no file"),
        ];
        for (text, part) in cases {
            let error = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn loopback_is_recognised() {
        for text in ["127.9.9.9:1", "[::1]:1", "localhost:1", "ws://LOCALHOST:1", "unix:/x"] {
            assert!(text.parse::<ListenAddress>().unwrap().is_local(), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "example.org:1", "ws://10.0.0.1:1"] {
            assert!(!text.parse::<ListenAddress>().unwrap().is_local(), "{text}");
        }
    }
}
