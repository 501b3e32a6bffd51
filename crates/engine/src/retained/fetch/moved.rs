//! Retained messages that move from node to node while a subscription fetches them.
//!
//! Tables reach nodes at different moments. The old home may have forgotten the values of a partition before this shard
//! knows their new home, and the new home sends none before they are complete. But this shard has cut by then. So it
//! asks no shard between its cut and the table that ends the move. The old home has answered all questions before the
//! cut: the move only continues after the old home has received the cut, which follows them. The new home is asked for
//! the rest.

use super::{Fetch, FetchState, Fetches};
use crate::cluster::transfer::Transfers;
use crate::ids::{PartitionId, Partitions, ShardId, partition_of};
use crate::message::Publication;
use crate::roster::Roster;
use crate::topics::is_own_topic;

impl Fetch {
    /// Whether it is for a filter without wildcards, so that one shard has all.
    pub(super) fn is_of_one_topic(&self) -> bool {
        !self.filter.contains(['+', '#'])
    }

    /// Whether a shard will be asked for all that it has.
    fn will_ask(&self, shard: ShardId) -> bool {
        let is_present = self.shards.last() == Some(&shard);
        let has_begun = is_present && (self.state == FetchState::Asked || !self.after.is_empty());
        self.shards.contains(&shard) && !has_begun
    }
}

impl Fetches {
    /// A partition has another home.
    fn follow(&mut self, partition: PartitionId, before: ShardId, home: ShardId) {
        let one = Partitions::of(partition);
        let those = self.by_id.values_mut().filter(|fetch| !fetch.is_of_one_topic() && !is_own_topic(&fetch.filter));
        for fetch in those.filter(|fetch| fetch.wanted.has(partition) && !fetch.again.has(partition)) {
            if !fetch.shards.contains(&before) {
                // The old home has sent all its values.
                fetch.wanted = fetch.wanted.without(one);
            } else if !fetch.will_ask(home) {
                fetch.again = fetch.again.with(one);
            }
        }
    }

    /// A move has ended: fetches that waited for a move look again.
    pub(crate) fn wake_moved(&mut self) {
        for (id, fetch) in self.by_id.iter_mut().filter(|(_, fetch)| fetch.state == FetchState::Moves) {
            fetch.state = FetchState::Runnable;
            self.runnable.push_back(*id);
        }
    }
}

impl Fetches {
    /// True if a fetch has to wait, because either of two homes may have the wanted values.
    pub(crate) fn waits_for_moves(&mut self, roster: &Roster, transfers: &Transfers, id: u32) -> bool {
        if !transfers.have_cuts() {
            return false;
        }
        let unsettled = transfers.unsettled(roster);
        let Some(fetch) = self.by_id.get_mut(&id).filter(|fetch| !is_own_topic(&fetch.filter)) else {
            return false;
        };
        let waits = if fetch.is_of_one_topic() {
            unsettled.has(partition_of(fetch.tenant, &fetch.filter))
        } else {
            !unsettled.is_empty()
        };
        if waits {
            fetch.state = FetchState::Moves;
        }
        waits
    }

    /// The shard that a fetch asks next; none when it has asked all.
    pub(crate) fn next_to_ask(&mut self, roster: &Roster, id: u32) -> Option<ShardId> {
        let missed = roster.missed_partitions();
        let fetch = self.by_id.get_mut(&id)?;
        if fetch.is_of_one_topic() {
            // The topic may have another home by now.
            let home = roster.home_of_topic(fetch.tenant, &fetch.filter);
            fetch.shards = vec![home];
        } else if fetch.shards.is_empty() && !fetch.again.is_empty() {
            fetch.is_second_look = true;
            fetch.wanted = fetch.again.without(missed);
            fetch.again = fetch.again.among(missed);
            fetch.shards = fetch.wanted.iter().map(|partition| roster.home_of(partition)).collect();
            fetch.shards.sort_unstable();
            fetch.shards.dedup();
        }
        fetch.shards.last().copied()
    }

    /// A table is in force. `unsettled` are the partitions whose home was unknown before.
    pub(crate) fn follow_moved(
        &mut self,
        roster: &Roster,
        transfers: &mut Transfers,
        old: &Roster,
        unsettled: Partitions,
    ) {
        transfers.forget_returned(roster);
        for partition in unsettled.without(transfers.unsettled(roster)).iter() {
            let (before, home) = (old.home_of(partition), roster.home_of(partition));
            if before != home && !old.is_substitute_for(partition) {
                transfers.note_moved(partition, before);
                self.follow(partition, before, home);
            }
        }
        self.wake_moved();
        self.wake_absent();
    }
}

impl Transfers {
    /// Whether a value of this shard is ignored, since its home sends it or has sent it.
    pub(crate) fn is_value_of_other_shard(
        &self,
        roster: &Roster,
        fetch: &Fetch,
        from: ShardId,
        publication: &Publication<'_>,
    ) -> bool {
        if fetch.is_second_look && is_own_topic(publication.topic) {
            // The shards of this process have reported it first.
            return true;
        }
        if is_own_topic(publication.topic) {
            return !roster.is_own(from);
        }
        let partition = partition_of(publication.tenant, publication.topic);
        if roster.has_no_peers() {
            // This shard may have reported all but the values of a dead node before it took that node's place.
            return fetch.is_second_look && !fetch.wanted.has(partition);
        }
        let is_stray = roster.home_of(partition) != from;
        is_stray || !fetch.wanted.has(partition) || self.has_moved_from(partition, from)
    }
}
