//! Whether the shards of a node follow the newest table.

use std::collections::VecDeque;
use std::time::Instant;

use tidegate_cluster::DIFFERENCE_LIMIT;

/// A life of the node, and the epoch of the table that it follows.
type Followed = (u64, u64);

/// Most tables that are awaited with times of their own. Each further one counts from the time of the last of them.
const MAX_AWAITED: usize = 64;

/// The newest table, the one in force, and since when each table between them is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Behind {
    newest: Followed,
    in_force: Followed,
    /// Tables of the newest life that are not in force, in the order in which they came.
    awaited: VecDeque<(u64, Instant)>,
}

impl Behind {
    /// The newest table that the node knows.
    pub(super) fn note_newest(&mut self, newest: Followed, now: Instant) {
        if self.newest == newest {
            return;
        }
        if self.newest.0 != newest.0 {
            self.awaited.clear();
        }
        self.newest = newest;
        if newest == self.in_force {
            return;
        }
        if self.awaited.len() == MAX_AWAITED
            && let Some((epoch, _)) = self.awaited.back_mut()
        {
            *epoch = newest.1;
        } else {
            self.awaited.push_back((newest.1, now));
        }
    }

    /// The table that the shards follow from now on.
    pub(super) fn note_in_force(&mut self, in_force: Followed) {
        self.in_force = in_force;
        if in_force.0 == self.newest.0 {
            self.awaited.retain(|(epoch, _)| *epoch > in_force.1);
        }
    }

    /// Whether clients can be served by the table in force. A node that was ready serves its own partitions while a table of
    /// the same life is on its way to the shards. Each table has the same time for that, however many come.
    pub(super) fn can_serve(&self, was_ready: bool, now: Instant) -> bool {
        let continues = was_ready && self.newest.0 == self.in_force.0;
        let lasts = |since: Instant| now.saturating_duration_since(since) > DIFFERENCE_LIMIT;
        self.awaited.front().is_none_or(|(_, since)| continues && !lasts(*since))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_ready_node_stays_ready_while_a_table_is_on_its_way() {
        let now = Instant::now();
        let at = |ms| now + Duration::from_millis(ms);
        let mut behind = Behind::default();
        behind.note_newest((1, 5), now);
        behind.note_in_force((1, 5));
        assert!(behind.can_serve(false, now) && behind.can_serve(true, now));
        behind.note_newest((1, 6), now);
        assert!(!behind.can_serve(false, now), "a node that starts follows the newest table first");
        behind.note_newest((1, 7), at(1_500));
        behind.note_newest((1, 7), at(1_600));
        assert!(behind.can_serve(true, at(2_000)) && !behind.can_serve(true, at(2_001)));
        behind.note_in_force((1, 6));
        assert!(behind.can_serve(true, at(3_500)) && !behind.can_serve(true, at(3_501)), "since its own beginning");
        behind.note_in_force((1, 7));
        assert!(behind.can_serve(true, at(9_000)));
        behind.note_newest((2, 7), at(9_000));
        assert!(!behind.can_serve(true, at(9_000)), "another life serves nothing of the earlier one");
        behind.note_in_force((1, 8));
        assert!(!behind.can_serve(true, at(9_000)));
        behind.note_in_force((2, 8));
        behind.note_newest((2, 8), at(9_100));
        assert!(behind.can_serve(false, at(9_100)), "it was in force before it was known as the newest");
    }

    /// Tables come each second. Says after how many seconds the node is not ready, when each needs this time.
    fn first_not_ready(each: Duration) -> Option<u32> {
        let now = Instant::now();
        let (mut behind, mut epoch, mut free) = (Behind::default(), 0, now);
        behind.note_newest((1, 0), now);
        behind.note_in_force((1, 0));
        (1..500).find(|second| {
            let at = now + Duration::from_secs(1) * *second;
            behind.note_newest((1, u64::from(*second)), at);
            while epoch < u64::from(*second) && free.max(now + Duration::from_secs(epoch + 1)) + each <= at {
                free = free.max(now + Duration::from_secs(epoch + 1)) + each;
                epoch += 1;
                behind.note_in_force((1, epoch));
            }
            !behind.can_serve(true, at)
        })
    }

    #[test]
    fn a_chain_of_tables_has_one_time_for_each() {
        assert_eq!(first_not_ready(Duration::from_millis(900)), None, "each is in force before the next one comes");
        assert_eq!(first_not_ready(Duration::from_millis(1_500)), Some(8), "they come faster than they are followed");
    }

    #[test]
    fn awaited_tables_take_bounded_room() {
        let now = Instant::now();
        let mut behind = Behind::default();
        for epoch in 1..10_000 {
            behind.note_newest((1, epoch), now + Duration::from_secs(epoch));
        }
        assert_eq!(behind.awaited.len(), MAX_AWAITED);
        behind.note_in_force((1, 9_998));
        assert!(!behind.can_serve(true, now + Duration::from_secs(10_000)), "the newest is not in force");
        behind.note_in_force((1, 9_999));
        assert!(behind.can_serve(true, now + Duration::from_secs(10_000)));
    }
}
