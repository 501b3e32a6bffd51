//! Partitions that move between processes, and the messages of brokers for them.

use super::arrivals::Arrivals;
use super::forwarding::Forwarding;
use crate::groups::Groups;
use crate::ids::{Partitions, ShardPosition};
use crate::orchestrator::broker_link::id::MessageId;
use crate::state::ShardState;
use crate::topics::Route;

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
}

impl Handover {
    /// Shared groups pass over the sessions of partitions that leave.
    pub(crate) fn tell_departures(&self, state: &mut ShardState) {
        state.departures = self.forwarding.departures();
    }

    /// Whether a message may be for a partition that moves, or was delivered to one that has moved.
    #[inline]
    pub(crate) fn concerns(&self, id: Option<&MessageId>) -> bool {
        !self.forwarding.is_empty() || id.is_some_and(|id| self.arrivals.concern(id))
    }
}

/// Whether a message with this route is for a session of these partitions, which leave, or for a group whose members here
/// all leave.
pub(crate) fn concerns_left(
    partitions: Partitions,
    place: ShardPosition,
    state: &ShardState,
    groups: &Groups,
    route: &Route,
) -> bool {
    // Another shard may have the group of a session.
    let elsewhere = place.others().any(|shard| route.remote_bits() >> shard.0 & 1 != 0);
    elsewhere
        || concerns(partitions, place, state, route)
        || route.groups().iter().any(|group| groups.leaves_with(*group, partitions, &state.departures))
}

/// Whether a message with this route is for a session of these partitions.
pub(crate) fn concerns(partitions: Partitions, place: ShardPosition, state: &ShardState, route: &Route) -> bool {
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
