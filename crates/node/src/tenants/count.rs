//! How many there are of something.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How many there may be over all nodes, 0 for no limit, and how many other nodes have.
pub(super) type Quota = (u64, u64);

/// How many there are of something, and how many of these do not count against the quota. Both are in one number, so
/// that a claim sees them together.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// The low half has the number of all, the high half that of the exempt ones.
    const EXEMPT: u64 = 1 << 32;

    const fn all(value: u64) -> u64 {
        value % Self::EXEMPT
    }

    const fn counted(value: u64) -> u64 {
        Self::all(value).saturating_sub(value / Self::EXEMPT)
    }

    /// Whether one more is within the quota. `elsewhere` is how many other nodes have.
    const fn has_room(value: u64, (max, elsewhere): Quota) -> bool {
        max == 0 || Self::counted(value).saturating_add(elsewhere) < max
    }

    /// How many count.
    pub(super) fn load(&self) -> u64 {
        Self::counted(self.0.load(Relaxed))
    }

    /// One more; false at the quota.
    pub(super) fn claim(&self, quota: Quota) -> bool {
        let one_more = |value| Self::has_room(value, quota).then_some(value + 1);
        self.0.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(super) fn release(&self, count: u64) {
        let fewer = |value| Some(value - Self::all(value).min(count));
        let _ = self.0.fetch_update(Relaxed, Relaxed, fewer);
    }

    /// One of them does not count from now on.
    pub(super) fn exempt(&self) {
        self.0.fetch_add(Self::EXEMPT, Relaxed);
    }

    /// One of the exempt ones counts again; false at the quota.
    pub(super) fn include(&self, quota: Quota) -> bool {
        let one_fewer = |value| Self::has_room(value, quota).then(|| value.checked_sub(Self::EXEMPT).unwrap_or(value));
        self.0.fetch_update(Relaxed, Relaxed, one_fewer).is_ok()
    }
}
