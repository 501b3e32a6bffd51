//! Why there is no connection to a server, or no longer.

use std::io;

use super::{Address, TlsFileError, WebSocketError};
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

impl ConnectError {
    /// A failed handshake with `address`. Three kinds of certificates that OpenSSL takes are named, with the remedy.
    pub(in crate::net) fn tls(address: &Address, source: io::Error) -> Self {
        let text = source.to_string();
        let named = if text.contains("UnsupportedCertVersion") {
            Some(
                "the server's certificate is of X.509 version 1; issue one of version 3 (`openssl x509 -req -extfile FILE`), or do \
                 without the check of the name",
            )
        } else if text.contains("CaUsedAsEndEntity") {
            Some(
                "the server's certificate is that of an authority; issue one for a server \
                 (`openssl req -x509 -addext basicConstraints=critical,CA:FALSE`), or add the certificate itself to the file of trusted authorities",
            )
        } else if text.contains("not valid for any names") {
            Some(
                "the server's certificate has no subjectAltName, and its common name is not read; issue one that names the \
                 host (`openssl req -addext subjectAltName=DNS:HOST`), or do without the check of the name",
            )
        } else {
            None
        };
        let source = named.map_or(source, |text| io::Error::new(io::ErrorKind::InvalidData, text));
        Self::Tls { address: address.to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn certificates_that_openssl_takes_are_named() {
        let told = |reason: &str| {
            let address = Address::Tls { host: "h".to_owned(), port: 8883 };
            ConnectError::tls(&address, io::Error::other(reason.to_owned())).source().unwrap().to_string()
        };
        assert!(told("Other(OtherError(UnsupportedCertVersion))").contains("version 3"));
        assert!(told("Other(OtherError(CaUsedAsEndEntity))").contains("CA:FALSE"));
        let unnamed = "certificate not valid for name \"h\"; certificate is not valid for any names (according to its \
                       subjectAltName extension)";
        assert!(told(unnamed).contains("subjectAltName=DNS:HOST"));
        assert_eq!(told("UnknownIssuer"), "UnknownIssuer");
    }
}
