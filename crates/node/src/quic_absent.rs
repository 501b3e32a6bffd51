//! QUIC in a program without the feature `quic`: a listener for it is refused, and no connection of it exists.

#![expect(clippy::unused_self, reason = "the module `quic` has methods with these names")]

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::event::Event as Readiness;
use mio::{Registry, Token};
use tidegate_engine::{ConnectionKey, ListenerId, Millis, Output, Reason, ShardId};

use crate::relay::RelayKey;
use crate::shard::facets::QuicCalls;
use crate::shard::inbox::InboxSender;
use crate::tls::{TlsError, TlsFacts, TlsListener, TlsSettings};
use crate::transport::{Input, Wrote};

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

/// Who has a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// The engine.
    Client(#[expect(dead_code, reason = "no connection has an owner")] ConnectionKey),
    /// A relay, whose client's end it is.
    Relay(#[expect(dead_code, reason = "no connection has an owner")] RelayKey),
}

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
    pub(crate) fn new(_: QuicSocket, _: InboxSender, _: u16) -> Result<Self, TlsError> {
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

    pub(crate) fn read(&mut self, _: &mut [u8]) -> Input {
        match *self {}
    }

    pub(crate) fn write(&mut self, _: Option<&mut Output>) -> io::Result<Wrote> {
        match *self {}
    }
}

/// QUIC on a shard, without state.
pub(crate) struct QuicState;

impl QuicState {
    pub(crate) fn new(_: Vec<QuicEndpoint>) -> Self {
        Self
    }

    pub(crate) fn deadline(&self) -> Millis {
        Millis::NEVER
    }

    pub(crate) fn is_busy(&self, _: bool) -> bool {
        false
    }

    pub(crate) fn has_datagrams(&self) -> bool {
        false
    }

    pub(crate) fn stop_accepting(&mut self) {}

    pub(crate) fn shrink(&mut self) {}
}

impl QuicCalls<'_> {
    pub(crate) fn take_quic_readiness(&mut self, _: Token, _: &Readiness) -> bool {
        false
    }

    pub(crate) fn receive_datagrams(&mut self) {}

    pub(crate) fn take_quic_batch(&mut self, batch: QuicBatch) {
        match batch {}
    }

    pub(crate) fn take_quic_notice(&mut self, notice: QuicNotice) {
        match notice {}
    }

    pub(crate) fn run_quic_timers(&mut self) {}

    pub(crate) fn touch_quic(&mut self, id: QuicId) {
        match id {}
    }

    pub(crate) fn flush_quic(&mut self) {}

    pub(crate) fn own_quic(&mut self, id: QuicId, _: Owner) {
        match id {}
    }

    pub(crate) fn disown_quic(&mut self, quic: &mut Quic) {
        match *quic {}
    }

    pub(crate) fn redirect_quic(&mut self, quic: &mut Quic, _: ShardId) {
        match *quic {}
    }
}
