//! QUIC in a program without the feature `quic`: each connection is refused.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Registry, Token};

/// A connection; it has no values.
#[derive(Debug)]
pub(in crate::net) enum QuicStream {}

impl QuicStream {
    /// Refuses to connect.
    pub(in crate::net) fn connect(
        _: Option<SocketAddr>,
        _: SocketAddr,
        _: &str,
        _: Arc<rustls::ClientConfig>,
        _: Duration,
    ) -> io::Result<Self> {
        Err(io::Error::new(ErrorKind::Unsupported, "the feature `quic` is not in this build"))
    }

    pub(in crate::net) fn register(&self, _: &Registry, _: Token) -> io::Result<()> {
        match *self {}
    }

    pub(in crate::net) fn deregister(&self, _: &Registry) -> io::Result<()> {
        match *self {}
    }

    pub(in crate::net) fn rebind(&mut self) -> io::Result<()> {
        match *self {}
    }

    pub(in crate::net) fn next_deadline(&mut self) -> Option<Instant> {
        match *self {}
    }

    pub(in crate::net) fn handle_deadline(&mut self, _: Instant) {
        match *self {}
    }

    pub(in crate::net) fn is_waiting(&self) -> bool {
        match *self {}
    }

    pub(in crate::net) fn shutdown_write(&mut self) -> io::Result<()> {
        match *self {}
    }
}

impl Read for QuicStream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

impl Write for QuicStream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use crate::net::stream::Stream;
    use crate::net::{Address, SocketOptions};

    #[test]
    fn a_lean_client_names_the_feature_quic() {
        let address = Address::Quic { host: "127.0.0.1".to_owned(), port: 1 };
        let error = Stream::connect(&address, &SocketOptions::default()).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "the feature `quic` is not in this build");
    }
}
