//! Counters of a chain.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::decision::{Decision, RefusalKind};

/// Totals since the start of a chain, and current numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Clients that were let in.
    pub allowed: u64,
    /// Clients that a provider refused.
    pub refused: u64,
    /// Clients that were refused because no decision was possible in time.
    pub unavailable: u64,
    /// Answers from the cache, of both kinds.
    pub cache_hits: u64,
    /// Requests that waited for the answer to one like it.
    pub coalesced: u64,
    /// Requests for which there was no room; they count as unavailable, too.
    pub overflowed: u64,
    /// Requests whose time was over before it was their turn; they count as unavailable, too.
    pub late: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// Decisions that are remembered now.
    pub remembered: u64,
}

/// The numbers while they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    allowed: AtomicU64,
    refused: AtomicU64,
    unavailable: AtomicU64,
    cache_hits: AtomicU64,
    coalesced: AtomicU64,
    overflowed: AtomicU64,
    late: AtomicU64,
}

impl Tally {
    /// Counts an answer.
    pub(super) fn answered(&self, decision: &Decision) {
        let counter = match decision {
            Decision::Allow(_) => &self.allowed,
            Decision::Deny(refusal) if refusal.kind == RefusalKind::Unavailable => &self.unavailable,
            Decision::Deny(_) | Decision::Ignore => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remembered(&self, decision: &Decision) {
        self.cache_hits.fetch_add(1, Ordering::Relaxed);
        self.answered(decision);
    }

    pub(super) fn overflowed(&self, decision: &Decision) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        self.answered(decision);
    }

    pub(super) fn coalesced(&self) {
        self.coalesced.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, waiting: usize, remembered: usize) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            allowed: read(&self.allowed),
            refused: read(&self.refused),
            unavailable: read(&self.unavailable),
            cache_hits: read(&self.cache_hits),
            coalesced: read(&self.coalesced),
            overflowed: read(&self.overflowed),
            late: read(&self.late),
            waiting: u64::try_from(waiting).unwrap_or(u64::MAX),
            remembered: u64::try_from(remembered).unwrap_or(u64::MAX),
        }
    }
}
