//! A shard's state of QUIC: its sockets, and the connections whose clients have their home here, on any socket.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tidegate_engine::{ConnectionKey, Millis};

use crate::quic::{Arrived, EndpointShared, QuicEndpoint, QuicId, ReceiveRoom};
use crate::relay::RelayKey;

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The engine.
    Client(ConnectionKey),
    /// A relay, whose client's end it is.
    Relay(RelayKey),
}

/// QUIC on a shard.
#[derive(Default)]
pub(crate) struct QuicState {
    /// The sockets of this shard.
    pub(super) endpoints: Vec<QuicEndpoint>,
    /// The owner of each connection of this shard.
    pub(super) owners: HashMap<QuicId, Owner>,
    /// The times of their timers.
    timers: BTreeSet<(Millis, QuicId)>,
    /// Connections that may have packets to send.
    pub(super) touched: Vec<QuicId>,
    /// Connections whose socket would block.
    pub(super) stuck: Vec<QuicId>,
    /// Sockets that this shard waits to write to, its own and other shards'.
    pub(super) waited_for: Vec<Arc<EndpointShared>>,
    pub(super) receive_room: Option<Box<ReceiveRoom>>,
    pub(super) arrived: Vec<Arrived>,
    /// Room for datagrams to be sent.
    pub(super) room: Vec<u8>,
}

impl QuicState {
    /// A shard with these sockets.
    pub(crate) fn new(endpoints: Vec<QuicEndpoint>) -> Self {
        Self { endpoints, ..Self::default() }
    }

    /// The socket of this shard with a number.
    pub(super) fn endpoint(&mut self, number: u16) -> Option<&mut QuicEndpoint> {
        self.endpoints.iter_mut().find(|endpoint| endpoint.shared.number == number)
    }

    /// Sets the deadline of a connection's timers, in place of the former one.
    pub(super) fn set_timer(&mut self, id: QuicId, before: Millis, due: Millis) {
        if before != Millis::NEVER {
            self.timers.remove(&(before, id));
        }
        if due != Millis::NEVER {
            self.timers.insert((due, id));
        }
    }

    /// The next connection whose timers are due.
    pub(super) fn pop_due(&mut self, now: Millis) -> Option<QuicId> {
        let (at, _) = self.timers.first()?;
        if *at > now {
            return None;
        }
        self.timers.pop_first().map(|(_, id)| id)
    }

    /// When timers are due next.
    pub(crate) fn deadline(&self) -> Millis {
        self.timers.first().map_or(Millis::NEVER, |(at, _)| *at)
    }

    /// Whether there is work to do at once.
    pub(crate) fn is_busy(&self, serving: bool) -> bool {
        !self.touched.is_empty() || (serving && self.has_datagrams())
    }

    /// Whether a socket may have datagrams that were not received.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.ready)
    }

    /// Takes no new connections from now on.
    pub(crate) fn stop_accepting(&mut self) {
        for endpoint in &mut self.endpoints {
            endpoint.accepting = false;
        }
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.owners.shrink_to_fit();
        self.touched.shrink_to_fit();
        self.stuck.shrink_to_fit();
        self.arrived.shrink_to_fit();
    }
}
