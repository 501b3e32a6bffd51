//! QUIC on a shard in a program without the feature `quic`.

#![expect(clippy::unused_self, reason = "the module `datagrams` has methods with these names")]

use mio::Token;
use mio::event::Event as Readiness;
use tidegate_engine::{ConnectionKey, Millis, ShardId};

use crate::quic::{Quic, QuicBatch, QuicEndpoint, QuicId, QuicNotice};
use crate::relay::RelayKey;
use crate::shard::facets::QuicCalls;

/// The owner of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// The engine.
    Client(#[expect(dead_code, reason = "no connection has an owner")] ConnectionKey),
    /// A relay, whose client's end it is.
    Relay(#[expect(dead_code, reason = "no connection has an owner")] RelayKey),
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
