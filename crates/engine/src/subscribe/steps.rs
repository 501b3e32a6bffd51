//! SUBSCRIBE and UNSUBSCRIBE packets, worked off in steps: a packet may name ten thousand filters, and everybody else
//! would wait for them.
//!
//! All clients together have so many filters worked off in a turn. Of a packet with more, the rest waits for the next
//! turns, and what its client has sent behind it waits as that of a parked publisher does. The answer has its place
//! among the others from the first step on, and leaves when the last one is done.

use crate::connection::parking::Parking;
use crate::connection::{Answer, UnsubAckAnswer};
use crate::desk::Timer;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::now::Now;
use crate::session::table::Sessions;
use crate::subscribe::SubAckWaits;
use crate::subscribe::subscribing::Subscribing;
use crate::telling::reason::Reason;
use tidegate_mqtt::{PacketId, QoS, ReasonCode, TopicError, TopicFilter, Version};

/// Work of filters in one turn, of all clients together, in units of [`filter_work`]. The packet that passes it goes on
/// in the next turn.
pub(crate) const FILTER_WORK_PER_TURN: usize = 64;

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
    /// Whether something was written into the journal.
    pub(crate) promises: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Subscribe(Asked),
    Unsubscribe,
}

/// What holds for all filters of a SUBSCRIBE.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) tenant: TenantId,
    pub(crate) max_qos: QoS,
    pub(crate) bridge: bool,
    pub(crate) subscription_id: u32,
    /// Filters worked off.
    pub(crate) number: usize,
    pub(crate) waits: SubAckWaits,
    /// Whether retained messages are expected.
    pub(crate) expects: bool,
}

/// A packet of which filters are left.
#[derive(Debug)]
pub(crate) struct PacketLeft {
    pub(crate) steps: Steps,
    /// The filters as they were sent.
    pub(crate) bytes: Box<[u8]>,
    /// Where those begin that are left.
    pub(crate) at: usize,
}

impl PacketLeft {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Parking<'_> {
    /// Whether a connection that has waited as long as others may waits on, for the next step of its packet. That ends
    /// by itself.
    pub(crate) fn waits_for_step(&mut self, now: Now, key: ConnectionKey) -> bool {
        let until = now.monotonic.plus(self.settings.limits.block_timeout_ms);
        let Some(extra) = self.desk.connections.get_mut(key).and_then(|connection| connection.extra.as_mut()) else {
            return false;
        };
        let Some(parked) = extra.parked.as_mut().filter(|_| extra.packet_left.is_some()) else { return false };
        parked.waits = 1;
        parked.until = until;
        self.desk.timers.set(until, Timer::Parked(key));
        true
    }

    /// A client that was suspended goes on, and so does its packet.
    pub(crate) fn go_on_with_steps(&mut self, key: ConnectionKey) {
        let connection = self.desk.connections.get(key);
        let extra = connection.and_then(|connection| connection.extra.as_ref());
        if extra.is_some_and(|extra| extra.packet_left.is_some()) && !self.turn_share.holds(key) {
            self.turn_share.add_packet(key);
        }
    }
}

impl Sessions {
    pub(crate) fn queue_len(&self, session: SessionKey) -> usize {
        let flow = self.get(session.0).and_then(|session| session.flow.as_ref());
        flow.map_or(0, |flow| flow.queue.len())
    }
}

impl Subscribing<'_> {
    pub(crate) fn take_unsubscription(
        &mut self,
        now: Now,
        session: SessionKey,
        filter: Result<TopicFilter<'_>, TopicError>,
        answer: &mut UnsubAckAnswer,
    ) {
        answer.codes.push(match filter {
            Err(_) => {
                answer.refusals.add("", Reason::InvalidTopicFilter);
                Reason::InvalidTopicFilter.code()
            }
            Ok(filter) if self.unsubscribe(now, session, filter) => ReasonCode::Success,
            Ok(_) => ReasonCode::NoSubscriptionExisted,
        });
    }
}

impl Subscribing<'_> {
    /// All filters are worked off; returns what the answer waits for beside what was noted with it.
    pub(crate) fn end_steps(&mut self, steps: &mut Steps, answer: &Answer) -> u32 {
        if let (Kind::Subscribe(asked), Answer::SubAck(answer)) = (&mut steps.kind, answer)
            && asked.waits.known
            && !asked.waits.announced
        {
            let told = self.wait_for_interest(steps.ticket, !answer.fetches.is_empty());
            asked.waits.confirmations += u32::from(told);
        }
        steps.take_waits()
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
