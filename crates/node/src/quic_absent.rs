//! QUIC in a program without the feature `quic`: a listener for it is refused, and no connection of it exists.

#![expect(clippy::unused_self, reason = "the module `quic` has methods with these names")]

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::Registry;
use tidegate_engine::{ListenerId, Output, Reason};

use crate::socket_io::{Input, Wrote};
use crate::tls::{TlsError, TlsFacts, TlsListener, TlsSettings};

/// Sockets of a node.
pub(crate) const MAX_ENDPOINTS: usize = 0;

const NOT_BUILT: &str = "the feature `quic` is not in this build";

/// A bound socket: [`bind`] gives none.
#[derive(Debug)]
pub(crate) struct BoundSocket;

/// A bound socket of a listener.
#[derive(Debug)]
pub(crate) struct QuicSocket;

/// A listening UDP socket.
#[derive(Debug)]
pub(crate) enum QuicEndpoint {}

/// A connection.
#[derive(Debug)]
pub(crate) enum Quic {}

/// A connection of this node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuicId {}

/// Why a connection failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum QuicFailure {}

/// Datagrams for connections of another shard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuicBatch {}

/// Events of a connection for its endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuicNotice {}

/// Takes the events of connections to the shard of their socket.
pub(crate) type Notices = Box<dyn Fn(QuicNotice) + Send + Sync>;

/// Refuses to bind.
pub(crate) fn bind(_: SocketAddr) -> io::Result<(BoundSocket, SocketAddr)> {
    Err(io::Error::new(ErrorKind::Unsupported, NOT_BUILT))
}

impl QuicSocket {
    pub(crate) fn new(_: ListenerId, _: Arc<TlsListener>, _: BoundSocket) -> Self {
        Self
    }

    pub(crate) fn set_number(&mut self, _: u16) {}
}

impl QuicEndpoint {
    pub(crate) fn new(_: QuicSocket, _: Notices, _: u16) -> Result<Self, TlsError> {
        Err(TlsError::Setup { reason: NOT_BUILT.to_owned() })
    }

    pub(crate) fn register(&self, _: &Registry) -> io::Result<()> {
        match *self {}
    }
}

impl Quic {
    pub(crate) fn id(&self) -> QuicId {
        match *self {}
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        match *self {}
    }

    pub(crate) fn rtt_us(&self) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_ended(&self) -> bool {
        match *self {}
    }

    pub(crate) fn close(&mut self, _: Reason) {
        match *self {}
    }

    pub(crate) fn finish(&mut self) {
        match *self {}
    }

    pub(crate) fn client_chain(&self) -> Vec<Box<[u8]>> {
        match *self {}
    }

    pub(crate) fn facts(&self, _: &TlsSettings) -> Option<TlsFacts> {
        match *self {}
    }

    pub(crate) fn read(&mut self, _: &mut [u8]) -> Input<QuicFailure> {
        match *self {}
    }

    pub(crate) fn write(&mut self, _: Option<&mut Output>) -> io::Result<Wrote> {
        match *self {}
    }
}
