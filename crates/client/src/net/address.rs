//! The address of a server.

use std::path::PathBuf;
use std::time::Duration;

use super::{Announce, Pipes, TlsConnector};

/// The address of a server, and its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// MQTT over TCP.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
    /// MQTT over TLS over TCP.
    Tls {
        /// A name or an address; the server's certificate must be for it.
        host: String,
        /// The port.
        port: u16,
    },
    /// MQTT over QUIC, which is over UDP and always encrypted.
    Quic {
        /// A name or an address; the server's certificate must be for it.
        host: String,
        /// The port.
        port: u16,
    },
    /// MQTT over a Unix socket.
    Unix {
        /// The socket's path.
        path: PathBuf,
    },
    /// MQTT to a server in this process, without a socket. [`SocketOptions::pipes`] leads there.
    Pipe {
        /// The number of the listener.
        listener: u16,
    },
    /// MQTT over WebSocket over TCP.
    WebSocket {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// The path of the request, such as `/mqtt`.
        path: String,
    },
    /// MQTT over WebSocket over TLS over TCP.
    WebSocketTls {
        /// A name or an address; the server's certificate must be for it.
        host: String,
        /// The port.
        port: u16,
        /// The path of the request, such as `/mqtt`.
        path: String,
    },
}

impl Address {
    /// Whether TLS is spoken.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls { .. } | Self::WebSocketTls { .. } | Self::Quic { .. })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } => write_authority(f, host, *port),
            Self::Tls { host, port } => {
                f.write_str("mqtts://")?;
                write_authority(f, host, *port)
            }
            Self::Quic { host, port } => {
                f.write_str("quic://")?;
                write_authority(f, host, *port)
            }
            Self::Unix { path } => write!(f, "{}", path.display()),
            Self::Pipe { listener } => write!(f, "listener {listener} of this process"),
            Self::WebSocket { host, port, path } => {
                f.write_str("ws://")?;
                write_authority(f, host, *port)?;
                f.write_str(path)
            }
            Self::WebSocketTls { host, port, path } => {
                f.write_str("wss://")?;
                write_authority(f, host, *port)?;
                f.write_str(path)
            }
        }
    }
}

/// A host and a port; an IPv6 address in brackets.
pub(super) fn write_authority(out: &mut impl std::fmt::Write, host: &str, port: u16) -> std::fmt::Result {
    if host.contains(':') { write!(out, "[{host}]:{port}") } else { write!(out, "{host}:{port}") }
}

/// How sockets are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// The local name or address to connect from; `None` for any. Not for Unix sockets.
    pub bind: Option<String>,
    /// How long each address of a server may take to accept a connection, and its TLS handshake as long again; over
    /// QUIC both are one.
    pub connect_timeout: Duration,
    /// The connector for TLS; without one, the system's authorities are trusted.
    pub tls: Option<TlsConnector>,
    /// Told the local address of each TCP socket before it connects. The server has to be on this machine: the socket is
    /// bound to the server's own address.
    pub announce: Option<Announce>,
    /// The way to a server in this process.
    pub pipes: Option<Pipes>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { bind: None, connect_timeout: Duration::from_secs(30), tls: None, announce: None, pipes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_text() {
        let host = || "::1".to_owned();
        let tcp = Address::Tcp { host: host(), port: 1 };
        assert_eq!(tcp.to_string(), "[::1]:1");
        assert_eq!(Address::Quic { host: host(), port: 3 }.to_string(), "quic://[::1]:3");
        let path = "/mqtt".to_owned();
        let web = Address::WebSocket { host: "h".to_owned(), port: 2, path };
        assert_eq!(web.to_string(), "ws://h:2/mqtt");
        assert_eq!(Address::Pipe { listener: 4 }.to_string(), "listener 4 of this process");
        let unix = Address::Unix { path: "a/b".into() };
        assert_eq!(unix.to_string(), "a/b");
    }
}
