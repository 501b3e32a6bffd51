//! Whether the shards of a node follow the newest table.

use std::time::Instant;

use tidegate_cluster::DIFFERENCE_LIMIT;

/// Since when the shards have not followed the newest table, without a step towards it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behind(Option<Instant>);

impl Behind {
    /// The newest table is another one, or the same as before.
    pub(super) fn note(&mut self, is_behind: bool, now: Instant) {
        self.0 = is_behind.then(|| self.0.unwrap_or(now));
    }

    /// The shards follow another table than before.
    pub(super) fn step(&mut self, is_behind: bool, now: Instant) {
        self.0 = is_behind.then_some(now);
    }

    /// Whether that is more than a table on its way to the shards.
    pub(super) fn lasts(self, now: Instant) -> bool {
        self.0.is_some_and(|since| now.saturating_duration_since(since) > DIFFERENCE_LIMIT)
    }
}
