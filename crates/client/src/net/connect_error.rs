//! Why there is no connection to a server, or no longer.

use std::io;

use super::{TlsFileError, WebSocketError};
use crate::OpenError;

/// Why a connection to a server cannot be established.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name of the server cannot be resolved.
    #[error("cannot resolve '{host}'")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The name of the server has no address, or none of the kind of the local address.
    #[error("'{host}' has no address that can be used")]
    NoAddress {
        /// The name.
        host: String,
    },
    /// The local address cannot be used.
    #[error("cannot connect from '{bind}'")]
    Bind {
        /// The local name or address.
        bind: String,
        /// Why.
        source: io::Error,
    },
    /// No address of the server accepts a connection; the error is that of the last one.
    #[error("cannot connect to {address}")]
    Connect {
        /// The server.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The files of TLS cannot be used.
    #[error(transparent)]
    TlsFiles(#[from] TlsFileError),
    /// The server accepts a connection, and the TLS handshake fails.
    #[error("no TLS connection to {address}")]
    Tls {
        /// The server.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The CONNECT packet cannot be sent.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a transport has ended.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The server has closed it.
    #[error("the server closed the connection")]
    EndOfStream,
    /// The socket has failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The server has broken the WebSocket protocol, or closed the WebSocket.
    #[error(transparent)]
    WebSocket(#[from] WebSocketError),
}
