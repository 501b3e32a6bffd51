//! The timer that reports counted receipts.

use crate::engine::facets::{ClusterCalls, TimerCalls};
use crate::ids::ShardId;
use crate::link::counts::Counts;
use crate::link::record::Record;
use crate::roster::Shards;

impl TimerCalls<'_> {
    /// Reports changed counts when they are due.
    pub(crate) fn handle_receipts_timer(&mut self) {
        self.engine.state.tallies.due = None;
        let changed: Vec<(u64, ShardId, Counts)> = self
            .engine
            .state
            .tallies
            .parts
            .iter()
            .filter(|(_, part)| part.changed)
            .map(|(number, part)| (*number, part.origin, part.counts))
            .collect();
        for (number, origin, counts) in changed {
            if let Some(part) = self.engine.state.tallies.parts.get_mut(&number) {
                part.changed = false;
            }
            if counts.is_final() {
                self.engine.state.tallies.parts.remove(&number);
            }
            if origin == self.engine.place.shard {
                self.engine.cluster().take_counts(origin, number, counts);
            } else if self.engine.links.roster.has(origin) {
                self.engine.links.send(origin, Record::Counted { number, counts });
            }
        }
        // Counts of other shards arrive meanwhile.
        let changed = self.engine.state.tallies.wholes.iter().filter(|(_, whole)| whole.changed);
        let numbers: Vec<u64> = changed.map(|(number, _)| *number).collect();
        for number in numbers {
            self.engine.state.reports().tell_counts_of(number);
        }
    }
}

impl ClusterCalls<'_> {
    /// A shard has counted its nodes.
    pub(crate) fn take_counts(&mut self, from: ShardId, number: u64, counts: Counts) {
        let Some(whole) = self.engine.state.tallies.wholes.get_mut(&number) else { return };
        whole.awaited = whole.awaited.without(Shards::of(from));
        whole.changed |= whole.parts.insert(from, counts) != Some(counts);
        let now = self.engine.state.journal.now.monotonic;
        if from != self.engine.place.shard {
            self.engine.state.reports().tell_counts_later(now);
        }
    }
}
