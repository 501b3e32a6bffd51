//! TLS to a database. The certificate of the server is always checked.

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postgres::Socket;
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Stream;

use super::tls;
use crate::open_error::TrustError;

/// Makes the TLS sessions of connections.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

/// A TLS session that is about to begin with a server.
pub(super) struct Handshake {
    connector: TlsConnector,
    server: ServerName<'static>,
}

/// An encrypted connection.
pub(super) struct Encrypted(Stream<Socket>);

type BoxError = Box<dyn Error + Send + Sync>;

impl Tls {
    /// Trusts the authorities of a file, or the system's.
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, TrustError> {
        tls::client(ca_file).map(Self)
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = BoxError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, BoxError> {
        let server = ServerName::try_from(domain.to_owned())?;
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.0)), server })
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted, BoxError>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move { Ok(Encrypted(self.connector.connect(self.server, stream).await?)) })
    }
}

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
