//! Partitions that move between processes, and the messages of brokers for them.

use super::forwarding::Forwarding;
use super::have::Have;
use super::noted::AHEAD_MAX;
use crate::ids::{Partitions, Place};
use crate::orchestrator::uplink::id::MessageId;
use crate::state::ShardState;
use crate::topics::Route;
use std::collections::BTreeMap;

/// Partitions that move to another process, or have come from one.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// Messages that these partitions have received before their broker delivered them.
    pub(crate) ahead: Ahead,
    /// Messages that they have from their last homes.
    pub(crate) have: Have,
    /// Partitions that have moved between members of a cluster while brokers still deliver their messages to the old home.
    pub(crate) forwarding: Forwarding,
    /// Whether a partition is being moved out: the sessions of its connections go on elsewhere.
    pub(crate) exporting: bool,
    /// Partitions whose clients leave before these are held.
    pub(crate) parting: Partitions,
}

impl Handover {
    /// Whether a message may be for a partition that moves, or was delivered to one that has moved.
    #[inline]
    pub(crate) fn concerns(&self, id: Option<&MessageId>) -> bool {
        !self.forwarding.is_empty() || id.is_some_and(|id| self.ahead.has(id) || self.have.has(id))
    }
}

/// Messages that were delivered to some partitions before their broker has brought them, and to which.
#[derive(Debug, Default)]
pub(crate) struct Ahead(BTreeMap<(u64, u64), Partitions>);

impl Ahead {
    /// Whether a message is ahead of its broker.
    #[inline]
    fn has(&self, id: &MessageId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(id.origin, id.number))
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(u64, u64), &Partitions)> {
        self.0.iter()
    }

    /// Partitions have got these messages.
    pub(crate) fn add(&mut self, ids: impl IntoIterator<Item = ((u64, u64), Partitions)>) {
        for (id, partitions) in ids {
            let known = self.0.entry(id).or_default();
            *known = known.with(partitions);
        }
        // Better twice than memory without a bound.
        while self.0.len() > AHEAD_MAX {
            self.0.pop_first();
        }
    }

    /// Who has got a message already.
    pub(crate) fn take(&mut self, id: &MessageId) -> Option<Partitions> {
        self.0.remove(&(id.origin, id.number))
    }
}

/// Whether a message with this route is for a session of these partitions.
pub(crate) fn concerns(partitions: Partitions, place: Place, state: &ShardState, route: &Route) -> bool {
    let elsewhere = partitions.iter().any(|partition| {
        let shard = place.home_of(partition);
        shard != place.shard && route.remote_bits() >> shard.0 & 1 != 0
    });
    elsewhere
        || route.targets().iter().any(|target| {
            let session = state.sessions.get(target.session.0);
            session.is_some_and(|session| session.is_of(partitions))
        })
}
