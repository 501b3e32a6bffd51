//! The status of the store, for other threads.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::disk::is_full;
use crate::error::Fenced;
use crate::state::State;

impl State {
    /// The state after a failed write or sync; takes a text.
    pub(crate) fn after(error: &io::Error) -> fn(String) -> Self {
        match error {
            error if is_full(error) => |_| Self::Full,
            error if Fenced::is_in(error) => Self::Fenced,
            _ => Self::Failing,
        }
    }
}

/// Upper bounds of the histogram of sync times, microseconds; the last bucket has none.
pub const SYNC_BOUNDS_MICROSECONDS: [u64; 11] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

/// Numbers that the store's threads keep current. All bytes are bytes of files unless they say otherwise.
#[derive(Debug, Default)]
pub struct Status {
    pub(crate) journal_bytes: AtomicU64,
    pub(crate) table_bytes: AtomicU64,
    pub(crate) free_bytes: AtomicU64,
    pub(crate) pending_bytes: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) operations: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_nanoseconds: AtomicU64,
    pub(crate) sync_buckets: [AtomicU64; SYNC_BOUNDS_MICROSECONDS.len() + 1],
    pub(crate) merges: AtomicU64,
    pub(crate) failed_merges: AtomicU64,
    /// How long the last merge took.
    pub(crate) merge_milliseconds: AtomicU64,
    pub(crate) slowed_groups: AtomicU64,
    pub(crate) merges_fail: AtomicBool,
    pub(crate) failures: AtomicU64,
    pub(crate) segments: AtomicU64,
    pub(crate) loads: AtomicU64,
    pub(crate) index_bytes: AtomicU64,
    pub(crate) table_entries: AtomicU64,
    /// Limits that `is_full` needs.
    pub(crate) max_bytes: AtomicU64,
    pub(crate) min_free_bytes: AtomicU64,
    pub(crate) max_pending_bytes: AtomicU64,
    pub(crate) reserve_missing: AtomicU64,
    pub(crate) stuck: AtomicBool,
    pub(crate) state: Mutex<Option<State>>,
    pub(crate) last_error: Mutex<Option<String>>,
    /// When the group or the sync began that the disk has not finished.
    disk_since: Mutex<Option<Instant>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        impl Status {
            $($(#[$doc])* pub fn $name(&self) -> u64 {
                self.$name.load(Ordering::Relaxed)
            })*
        }
    };
}

numbers! {
    /// Free space below which the store is full, bytes.
    min_free_bytes,
    /// Bytes of files above which it is; 0 for no limit.
    max_bytes,
    /// Bytes of the journal that are in use.
    journal_bytes,
    /// Bytes of the table.
    table_bytes,
    /// Free space of the file system when it was last asked, bytes.
    free_bytes,
    /// Bytes handed in and not yet committed.
    pending_bytes,
    /// Bytes of the reserve that were used since another program filled the disk.
    reserve_missing,
    /// Batches committed since the store was opened.
    batches,
    /// Operations committed since the store was opened.
    operations,
    /// Groups of batches written since the store was opened.
    groups,
    /// Bytes written into the journal since the store was opened.
    written_bytes,
    /// Syncs of the journal since the store was opened.
    syncs,
    /// Time spent in syncs of the journal since the store was opened, nanoseconds.
    sync_nanoseconds,
    /// Merges finished since the store was opened.
    merges,
    /// Merges that failed, and are tried again, since the store was opened.
    failed_merges,
    /// Groups that were written later so that merges keep up, since the store was opened.
    slowed_groups,
    /// Writes and syncs that the disk refused since the store was opened.
    failures,
    /// Files of the journal.
    segments,
    /// Loads answered since the store was opened.
    loads,
    /// Memory of the index of the journal that loads use, bytes, about.
    index_bytes,
    /// Entries in the table when it was last written.
    table_entries,
}

impl Status {
    /// Whether the broker should refuse new messages: little space is left, too many bytes wait to be written, or
    /// writes fail.
    pub fn is_full(&self) -> bool {
        let pending = self.max_pending_bytes.load(Ordering::Relaxed);
        self.stuck.load(Ordering::Relaxed) || self.is_beyond_limits() || (pending > 0 && self.pending_bytes() > pending)
    }

    fn is_beyond_limits(&self) -> bool {
        let limit = self.max_bytes.load(Ordering::Relaxed);
        self.free_bytes() < self.min_free_bytes.load(Ordering::Relaxed)
            || (limit > 0 && self.store_bytes() > limit)
            || self.reserve_missing() > 0
    }

    /// Whether this share of its limits is free, percent: writes that can be refused leave it to the others.
    pub fn has_free_share(&self, percent: u64) -> bool {
        let (limit, min_free) = (self.max_bytes(), self.min_free_bytes());
        let used = self.store_bytes().saturating_add(self.pending_bytes());
        let share = |bytes: u64| u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX);
        let has_bytes = limit == 0 || used <= limit.saturating_sub(share(limit));
        has_bytes && self.free_bytes() >= min_free.saturating_add(share(min_free)) && !self.is_full()
    }

    /// Whether it is full because the files take too much, which a merge may change.
    pub(crate) fn lacks_room(&self) -> bool {
        self.is_beyond_limits() || (self.stuck.load(Ordering::Relaxed) && self.state() == State::Full)
    }

    /// Bytes of journal and table together.
    pub fn store_bytes(&self) -> u64 {
        self.journal_bytes() + self.table_bytes()
    }

    /// The current state.
    pub fn state(&self) -> State {
        held(&self.state).clone().unwrap_or(State::Ok)
    }

    /// The last failure, also when it is over.
    pub fn last_error(&self) -> Option<String> {
        held(&self.last_error).clone()
    }

    /// How many syncs took at most [`SYNC_BOUNDS_MICROSECONDS`] (the last: longer), each counted once.
    pub fn sync_histogram(&self) -> [u64; SYNC_BOUNDS_MICROSECONDS.len() + 1] {
        std::array::from_fn(|index| self.sync_buckets[index].load(Ordering::Relaxed))
    }

    pub(crate) fn note_sync(&self, took: Duration) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let bucket = SYNC_BOUNDS_MICROSECONDS.partition_point(|bound| u128::from(*bound) < took.as_micros());
        self.sync_buckets[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// For how long the disk has not finished the present group of batches, or their sync. Zero while it has nothing to do.
    pub fn waits_for_disk(&self) -> Duration {
        held(&self.disk_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(crate) fn begin_disk_work(&self) {
        *held(&self.disk_since) = Some(Instant::now());
    }

    pub(crate) fn end_disk_work(&self) {
        *held(&self.disk_since) = None;
    }

    /// Whether this is another state than the present one.
    pub(crate) fn differs(&self, state: &State) -> bool {
        match state {
            // The usual case takes no lock.
            State::Ok => self.stuck.load(Ordering::Relaxed),
            state => self.state() != *state,
        }
    }

    /// Whether another process owns the files, so that no write will ever succeed.
    pub fn is_fenced(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) && matches!(self.state(), State::Fenced(_))
    }

    pub(crate) fn set_state(&self, state: State) {
        let mut now = held(&self.state);
        let is_stuck = state != State::Ok;
        *now = Some(state);
        // Set under the lock, so that a reader that sees it also finds the reason.
        self.stuck.store(is_stuck, Ordering::Relaxed);
    }

    pub(crate) fn note_error(&self, text: String) {
        *held(&self.last_error) = Some(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_limits_is_free_below_them() {
        let status = Status::default();
        assert!(status.has_free_share(10), "without limits");
        for (number, value) in [(&status.max_bytes, 1_000), (&status.min_free_bytes, 100), (&status.free_bytes, 110)] {
            number.store(value, Ordering::Relaxed);
        }
        status.table_bytes.store(900, Ordering::Relaxed);
        assert!(status.has_free_share(10) && !status.has_free_share(20));
        status.pending_bytes.store(1, Ordering::Relaxed);
        assert!(!status.has_free_share(10), "bytes that wait count");
        status.pending_bytes.store(0, Ordering::Relaxed);
        status.free_bytes.store(109, Ordering::Relaxed);
        assert!(!status.has_free_share(10) && !status.is_full(), "the disk");
    }
}
