//! SUBSCRIBE and UNSUBSCRIBE packets, worked off in steps: a packet may name ten thousand filters, and everybody else
//! would wait for them.
//!
//! A turn processes a limited number of filters of all clients together. The other filters wait for the next
//! turns, and later packets of its client wait as a parked publisher's do. The answer has its place
//! among the others from the first step on, and leaves when the last one is done.

use crate::ids::{SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::session::table::Sessions;
use crate::subscribe::SubAckWaits;
use tidegate_mqtt::{PacketId, QoS, Version};

/// Work of filters in one turn, of all clients together, in units of [`filter_work`]. The packet that passes it
/// continues in the next turn.
pub(crate) const FILTER_WORK_PER_TURN: usize = 32;

/// Work that one connection may have done beyond [`FILTER_WORK_PER_TURN`], so that a crowd of clients that subscribe to
/// a few filters each does not wait.
pub(crate) const FILTER_WORK_IN_ANY_CASE: usize = 8;

/// Work of one filter: it grows with the levels, and so with the length.
pub(crate) fn filter_work(filter: &str) -> usize {
    1 + filter.len() / 32
}

/// A packet that is worked off.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) session: SessionKey,
    pub(crate) version: Version,
    pub(crate) packet_id: PacketId,
    pub(crate) ticket: Ticket,
    pub(crate) kind: Kind,
    /// Whether an operation was written into the journal.
    pub(crate) promises: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Subscribe(Asked),
    Unsubscribe,
}

/// The terms that hold for all filters of a SUBSCRIBE.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) tenant: TenantId,
    /// The tenant whose quota counts the subscriptions.
    pub(crate) counted_for: TenantId,
    pub(crate) max_qos: QoS,
    pub(crate) bridge: bool,
    pub(crate) subscription_id: u32,
    /// Filters worked off.
    pub(crate) number: usize,
    pub(crate) waits: SubAckWaits,
    /// Whether retained messages are expected.
    pub(crate) expects: bool,
}

/// A packet with filters left.
#[derive(Debug)]
pub(crate) struct PacketLeft {
    pub(crate) steps: Steps,
    /// The filters as they were sent.
    pub(crate) bytes: Box<[u8]>,
    /// Position of the first remaining one.
    pub(crate) at: usize,
}

impl PacketLeft {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Sessions {
    /// Messages that wait for a session and were not sent to it.
    pub(crate) fn queue_len(&self, session: SessionKey) -> usize {
        let flow = self.get(session.0).and_then(|session| session.flow.as_ref());
        flow.map_or(0, |flow| flow.queue.len())
    }
}

impl Steps {
    /// Confirmations that the answer waits for, which are noted with it from now on.
    pub(crate) fn take_waits(&mut self) -> u32 {
        match &mut self.kind {
            Kind::Subscribe(asked) => std::mem::take(&mut asked.waits.confirmations),
            Kind::Unsubscribe => 0,
        }
    }
}
