//! Messages from the links to the shards of their node.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tidegate_engine::{Batch, Roster, ShardId};

use super::outbox::Outbox;
use crate::flight::FlightKind;

/// The sender of batches to one shard of another node.
#[derive(Clone, Debug)]
pub(crate) struct PeerSeat {
    /// The number that it has here.
    pub slot: ShardId,
    /// The number that it has there.
    pub number: u16,
    pub outbox: Arc<Outbox>,
}

/// The nodes from now on.
#[derive(Clone, Debug)]
pub(crate) struct RosterOrder {
    pub roster: Roster,
    pub seats: Arc<[PeerSeat]>,
    /// Grows with each roster.
    pub number: u64,
}

/// Arrival or departure of a node, for the flight recorder.
#[derive(Clone, Debug)]
pub(crate) struct PeerNews {
    pub kind: FlightKind,
    pub address: IpAddr,
    pub detail: String,
}

/// A message of the links to a shard.
#[derive(Debug)]
pub(crate) enum FromLinks {
    /// Messages and changes of interest from a shard of another node.
    Batch(Batch),
    /// The nodes from now on.
    Roster(Box<RosterOrder>),
    /// Another node came or went.
    News(Box<PeerNews>),
}

/// The way to one shard.
pub(crate) struct ShardDoor(Box<dyn Fn(FromLinks) + Send>);

impl ShardDoor {
    /// Messages go where `send` brings them.
    pub(crate) fn new(send: impl Fn(FromLinks) + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Sends a message.
    pub(super) fn send(&self, message: FromLinks) {
        (self.0)(message);
    }
}

impl fmt::Debug for ShardDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShardDoor")
    }
}
