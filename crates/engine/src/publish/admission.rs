//! Whether a message may come in where queues reject: room is reserved at all of its subscribers above QoS 0 before any
//! of them gets it. A QoS 2 message is not taken either while a queue that blocks has given up.
//!
//! A PUBLISH that waits for other shards' answers or for room returns to the parked packets of its publisher and is
//! decided again in its turn. Its connection keeps the decisions made meanwhile.

use crate::connection::table::Connections;
use crate::events::reason::Reason;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::journal::Journal;
use crate::message::Publication;
use crate::now::Millis;
use crate::topics::stages::Rejection;
use crate::topics::stages::Step;
use std::collections::BTreeMap;
use tidegate_mqtt::QoS;

/// A message for which other shards were asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) connection: ConnectionKey,
    /// Shards that have not answered, one bit each.
    pub(crate) waiting: u64,
    pub(crate) granted: u64,
    pub(crate) refused: bool,
    /// Whether queues without room were asked to say when they have some.
    pub(crate) waits: bool,
}

/// Messages for which other shards were asked, by number: one for each parked publisher at most.
#[derive(Debug, Default)]
pub(crate) struct Admissions {
    pub(crate) asked: BTreeMap<u32, Asked>,
    pub(crate) next: u32,
}

/// The parts of a message that matter for its space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub tenant: TenantId,
    pub topic: &'a str,
    pub qos: QoS,
    /// Bytes that it counts for in a queue.
    pub cost: u64,
}

impl<'a> Wanted<'a> {
    /// Room for a message.
    pub(crate) fn of(publication: &Publication<'a>) -> Self {
        let (tenant, topic, qos) = (publication.tenant, publication.topic, publication.qos);
        Self { tenant, topic, qos, cost: publication.delivery_cost() }
    }
}

/// Queues without room for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// How many of them will say when they have room; at least 1.
    pub(crate) asked: u32,
    /// The session of the first of them.
    pub(crate) first: SessionKey,
}

impl Connections {
    /// The acknowledgement of a connection is not withheld any more.
    pub(crate) fn end_withholding(&mut self, key: ConnectionKey) {
        if let Some(extra) = self.get_mut(key).and_then(|connection| connection.extra.as_mut()) {
            extra.withheld_until = Millis::NEVER;
        }
    }
}

impl Journal {
    /// A queue has no room for this reason, or the store has none for messages to a subscriber of another shard.
    pub(crate) fn no_room(&self, reason: Reason, whose: Option<SessionKey>) -> Step {
        if self.full {
            return Reason::StoreFull.into();
        }
        Step::Reject(Rejection { reason, whose })
    }
}
