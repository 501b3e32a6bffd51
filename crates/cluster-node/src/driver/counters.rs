//! Counters of moves and takeovers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of moves.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) moved_out: AtomicU64,
    pub(super) moved_in: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) mismatches: AtomicU64,
    pub(super) taken_anew: AtomicU64,
    pub(super) lapses: AtomicU64,
    pub(super) passing: AtomicU64,
    pub(super) restoring: AtomicU64,
    /// Writes of the node's memory that have not returned.
    saving: AtomicU64,
    pub(super) restored: AtomicU64,
    pub(super) failovers: AtomicU64,
    pub(super) failover_ms: AtomicU64,
}

impl Counters {
    /// The number of partitions that wait for a dead node's images.
    pub(super) fn set_restoring(&self, partitions: usize) {
        self.restoring.store(partitions as u64, Ordering::Relaxed);
    }

    /// Saves the node's memory, which may wait for the disk or for the bus.
    pub(super) fn while_saving<T>(&self, save: impl FnOnce() -> T) -> T {
        self.saving.fetch_add(1, Ordering::Relaxed);
        let saved = save();
        self.saving.fetch_sub(1, Ordering::Relaxed);
        saved
    }

    /// Whether the node fetches stores of dead nodes.
    pub(super) fn is_restoring(&self) -> bool {
        self.restoring.load(Ordering::Relaxed) > 0
    }

    /// Whether the node's memory is being saved.
    pub(super) fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Relaxed) > 0
    }

    /// A share of a dead node's partitions is served here, and of some nothing was left.
    pub(super) fn note_restored(&self, partitions: usize, lost: usize, ms: u64) {
        self.failovers.fetch_add(1, Ordering::Relaxed);
        self.restored.fetch_add(partitions as u64, Ordering::Relaxed);
        self.failover_ms.store(ms, Ordering::Relaxed);
        self.note_begun_empty(lost);
    }

    /// The numbers of moves, and of connections of dead members to brokers, whose messages are passed on.
    pub(super) fn set_passing(&self, moves: usize, connections: usize) {
        self.passing.store((moves + connections) as u64, Ordering::Relaxed);
    }

    /// Whether messages of brokers are still passed on.
    pub(super) fn passes(&self) -> bool {
        self.passing.load(Ordering::Relaxed) > 0
    }

    pub(super) fn note_out(&self, partitions: usize) {
        self.moved_out.fetch_add(partitions as u64, Ordering::Relaxed);
    }

    pub(super) fn note_in(&self, partitions: usize) {
        self.moved_in.fetch_add(partitions as u64, Ordering::Relaxed);
    }

    pub(super) fn note_begun_empty(&self, partitions: usize) {
        self.taken_anew.fetch_add(partitions as u64, Ordering::Relaxed);
    }

    pub(super) fn note_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_mismatch(&self) {
        self.mismatches.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_when_it_saves_and_when_it_restores() {
        let counters = Counters::default();
        assert!(!counters.is_saving() && !counters.is_restoring());
        assert!(counters.while_saving(|| counters.is_saving() && !counters.is_restoring()));
        assert!(!counters.is_saving());
        counters.set_restoring(1);
        assert!(counters.is_restoring() && !counters.is_saving());
    }
}
