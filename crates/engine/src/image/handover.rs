//! Partitions that move between processes, and the messages of brokers for them.

use super::ahead::{QueuesAhead, QueuesSent};
use super::arrivals::Arrivals;
use super::forwarding::{AtHand, Forwarding};
use crate::groups::Groups;
use crate::ids::{Partitions, ShardPosition};
use crate::journal::Journal;
use crate::link::envelope::Ticket;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::state::ShardState;
use crate::topics::{GroupKey, Route};

/// Partitions that move to another process, or have come from one.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// Partitions that have arrived, and the messages that they have.
    pub(crate) arrivals: Arrivals,
    /// Partitions that have moved between members of a cluster while brokers still deliver their messages to the old home.
    pub(crate) forwarding: Forwarding,
    /// Whether a partition is being moved out: the sessions of its connections go on elsewhere.
    pub(crate) exporting: bool,
    /// Partitions whose clients leave before these are held.
    pub(crate) parting: Partitions,
    /// Queues that new homes have before their sessions.
    pub(crate) sent: QueuesSent,
    /// Queues that have come here before their sessions.
    pub(crate) ahead: QueuesAhead,
}

impl Handover {
    /// Shared groups follow their partitions.
    pub(crate) fn tell_departures(&self, state: &mut ShardState) {
        state.departures = self.forwarding.departures();
    }

    /// Whether no partition moves or has moved lately, so that all messages of brokers are for sessions here.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 20 instructions")]
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.arrivals.is_empty() && self.forwarding.left.is_empty() && self.forwarding.come.is_empty()
    }

    /// Whether a message may be for a partition that moves, or was delivered to one that has moved.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 20 instructions")]
    #[inline(always)]
    pub(crate) fn concerns(&self, id: Option<&MessageId>) -> bool {
        !self.forwarding.is_empty() || id.is_some_and(|id| self.arrivals.concern(id))
    }
}

impl Handover {
    /// A message comes, which this ticket acknowledges; by a connection of the dead old home of these transfers, or of
    /// none.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 20 instructions")]
    #[inline(always)]
    pub(crate) fn begin_message(&mut self, now: Now, journal: &mut Journal, former: Vec<u64>, ticket: Option<Ticket>) {
        self.arrivals.forget_old(now, journal);
        self.forwarding.at_hand = AtHand { former, ticket, ..AtHand::default() };
    }

    /// Returns the number of new homes that have to store the message before it is acknowledged.
    #[inline]
    pub(crate) fn end_message(&mut self) -> u32 {
        std::mem::take(&mut self.forwarding.at_hand).waits
    }

    /// Whether messages are collected for partitions that have left.
    #[inline]
    pub(crate) fn forwards(&self) -> bool {
        !self.forwarding.left.is_empty()
    }

    /// The partitions among these that have arrived here and whose sessions want a message brought by the connection of
    /// a dead member. `is_here` is true if a broker has delivered it here.
    pub(crate) fn wanting(
        &mut self,
        journal: &mut Journal,
        id: &MessageId,
        message: &MessageRef,
        is_here: bool,
        among: Partitions,
    ) -> Partitions {
        let Self { forwarding, arrivals, .. } = self;
        let (mut wanting, mut closed) = (Partitions::NONE, among.among(arrivals.partitions()));
        for come in forwarding.come.values_mut() {
            closed = closed.without(come.partitions);
            wanting = wanting.with(come.wants(arrivals, journal, among, (Some(id), message), (is_here, true)));
        }
        let missing = arrivals.lacking(closed, id, is_here);
        if !missing.is_empty() {
            arrivals.note_passed(journal, id, message, missing);
        }
        wanting.with(missing)
    }

    /// The partitions for which a further copy of a message may be a first one, although its broker does not say so. Where
    /// it is kept back, a copy for another filter must not overtake earlier messages; where no list says which messages the
    /// sessions have, nearly all copies are of messages that they have.
    pub(crate) fn deciding(&self, id: &MessageId) -> Partitions {
        Partitions::ALL.without(self.forwarding.keeping_back(id)).without(self.arrivals.unlisted())
    }

    /// Partitions have left.
    pub(crate) fn forget(&mut self, now: Now, journal: &mut Journal, partitions: Partitions) {
        self.arrivals.forget(now, journal, partitions);
        let Forwarding { left, come, .. } = &mut self.forwarding;
        for left in left.values_mut() {
            left.back = left.back.without(partitions);
        }
        for come in come.values_mut() {
            come.partitions = come.partitions.without(partitions);
        }
    }

    /// The partitions of a transfer.
    pub(crate) fn partitions_of(&self, transfer: u64) -> Partitions {
        self.forwarding.come.get(&transfer).map_or(Partitions::NONE, |come| come.partitions)
    }

    /// Whether the collected messages exceed their limit, so that brokers have to keep further ones.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.forwarding.is_full()
    }
}

/// Whether a message with this route is for a session or a group of these partitions, which leave.
pub(crate) fn concerns_left(
    partitions: Partitions,
    place: ShardPosition,
    state: &ShardState,
    groups: &Groups,
    route: &Route,
) -> bool {
    // Another shard may have the group of a session.
    let elsewhere = place.others().any(|shard| route.remote_bits() >> shard.0 & 1 != 0);
    elsewhere || concerns(partitions, place, state, groups, route)
}

/// Whether a message with this route is for a session or a group of these partitions.
pub(crate) fn concerns(
    partitions: Partitions,
    place: ShardPosition,
    state: &ShardState,
    groups: &Groups,
    route: &Route,
) -> bool {
    let of_group = |group: &GroupKey| groups.partition_of(*group).is_some_and(|partition| partitions.has(partition));
    let elsewhere = partitions.iter().any(|partition| {
        let shard = place.home_of(partition);
        shard != place.shard && route.remote_bits() >> shard.0 & 1 != 0
    });
    elsewhere
        || route.groups().iter().any(of_group)
        || route.targets().iter().any(|target| {
            let session = state.sessions.get(target.session.0);
            session.is_some_and(|session| session.is_of(partitions))
        })
}
