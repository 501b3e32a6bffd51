//! Retained messages at nodes that are dead: a subscription is owed them until another node has taken the place.
//!
//! A fetch asks all live shards. Values in partitions without a serving node are left for the end, and the fetch waits
//! for such a node.

use super::{FetchState, Fetches};
use crate::ids::{Partitions, ShardId, partition_of};
use crate::roster::Roster;
use crate::topics::is_own_topic;

/// The partitions whose values are fetched first, and those left for the end. A filter without wildcards leaves none:
/// it waits for the home of its topic.
pub(super) fn wanted_at_first(roster: &Roster, filter: &str) -> (Partitions, Partitions) {
    let of_all = is_own_topic(filter) || !filter.contains(['+', '#']);
    let missed = if of_all { Partitions::NONE } else { roster.missed_partitions() };
    (Partitions::ALL.without(missed), missed)
}

impl Fetches {
    /// Another roster is in force: fetches that wait for one look again.
    pub(crate) fn wake_absent(&mut self) {
        for (id, fetch) in self.by_id.iter_mut().filter(|(_, fetch)| fetch.state == FetchState::Absent) {
            fetch.state = FetchState::Runnable;
            self.runnable.push_back(*id);
        }
    }
}

impl Fetches {
    /// True if the partitions that a fetch has yet to ask are all without a serving node.
    pub(crate) fn waits_for_dead(&mut self, roster: &Roster, id: u32) -> bool {
        let missed = roster.missed_partitions();
        let Some(fetch) = self.by_id.get_mut(&id).filter(|fetch| !is_own_topic(&fetch.filter)) else {
            return false;
        };
        let waits = if fetch.is_of_one_topic() {
            missed.has(partition_of(fetch.tenant, &fetch.filter))
        } else {
            fetch.shards.is_empty() && !fetch.again.is_empty() && fetch.again.without(missed).is_empty()
        };
        if waits {
            fetch.state = FetchState::Absent;
        }
        waits
    }

    /// A shard that a fetch has yet to ask, or whose answer is incomplete, is gone. The values of its partitions are
    /// requested from their next homes.
    pub(super) fn want_again_of(&mut self, roster: &Roster, id: u32, gone: ShardId) {
        let Some(fetch) = self.by_id.get_mut(&id).filter(|fetch| !fetch.is_of_one_topic()) else { return };
        let its = fetch.wanted.filtered(|partition| roster.home_of(partition) == gone);
        if !is_own_topic(&fetch.filter) {
            fetch.again = fetch.again.with(its);
        }
    }
}
