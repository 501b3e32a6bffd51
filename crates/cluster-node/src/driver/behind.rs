//! Whether the shards of a node follow the newest table.

use std::time::Instant;

use tidegate_cluster::DIFFERENCE_LIMIT;

/// A life of the node, and the epoch of the table that it follows.
type Followed = (u64, u64);

/// The newest table, the one in force, and since when these differ without a step of the shards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behind {
    newest: Followed,
    in_force: Followed,
    since: Option<Instant>,
}

impl Behind {
    /// The newest table that the node knows.
    pub(super) fn note_newest(&mut self, newest: Followed, now: Instant) {
        self.newest = newest;
        self.since = (self.newest != self.in_force).then(|| self.since.unwrap_or(now));
    }

    /// The table that the shards follow from now on.
    pub(super) fn note_in_force(&mut self, in_force: Followed, now: Instant) {
        self.in_force = in_force;
        self.since = (self.newest != self.in_force).then_some(now);
    }

    /// Whether clients can be served by the table in force. A node that was ready serves its own partitions while a table of
    /// the same life is on its way to the shards.
    pub(super) fn can_serve(&self, was_ready: bool, now: Instant) -> bool {
        let continues = was_ready && self.newest.0 == self.in_force.0;
        let lasts = |since: Instant| now.saturating_duration_since(since) > DIFFERENCE_LIMIT;
        self.since.is_none_or(|since| continues && !lasts(since))
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
        behind.note_in_force((1, 5), now);
        assert!(behind.can_serve(false, now) && behind.can_serve(true, now));
        behind.note_newest((1, 6), now);
        assert!(!behind.can_serve(false, now), "a node that starts follows the newest table first");
        behind.note_newest((1, 7), at(1_500));
        assert!(behind.can_serve(true, at(2_000)) && !behind.can_serve(true, at(2_001)));
        // Each step of the shards shows that they are on their way.
        behind.note_in_force((1, 6), at(1_900));
        assert!(behind.can_serve(true, at(3_900)) && !behind.can_serve(true, at(3_901)));
        behind.note_in_force((1, 7), at(9_000));
        assert!(behind.can_serve(true, at(9_000)));
        behind.note_newest((2, 7), at(9_000));
        assert!(!behind.can_serve(true, at(9_000)), "another life serves nothing of the earlier one");
    }
}
