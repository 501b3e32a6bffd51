//! The exchange of announcements with other nodes.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::others::Others;

/// The shortest time in which messages are counted, milliseconds: a rate over a shorter one would say little.
const MEASURE_MS: u64 = 500;

/// The announcements of other nodes, and the thread that announces the use at this one.
#[derive(Default)]
pub(super) struct Sharing {
    others: Mutex<Others>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    is_woken: AtomicBool,
    /// A node has just been linked or heard for the first time, and needs a whole announcement.
    has_new: AtomicBool,
    /// When messages were last counted, milliseconds of the monotonic clock.
    measured: AtomicU64,
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").field("others", &self.others).finish_non_exhaustive()
    }
}

impl Sharing {
    /// The announcements of other nodes. Shards do not lock them.
    pub(super) fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls this from now on when an announcement is due; the first call counts.
    pub(super) fn set_wake(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.wake.set(wake);
    }

    /// Wakes the thread that announces, once for each announcement.
    pub(super) fn wake(&self) {
        if let Some(wake) = self.wake.get()
            && !self.is_woken.swap(true, Relaxed)
        {
            wake();
        }
    }

    /// Another node may not have heard this one.
    pub(super) fn introduce(&self) {
        self.has_new.store(true, Relaxed);
        self.wake();
    }

    /// An announcement begins: later changes wake the thread again. Returns whether it has to be a whole one.
    pub(super) fn begin(&self, now: u64, is_whole: bool) -> bool {
        self.is_woken.store(false, Relaxed);
        let is_whole = self.has_new.swap(false, Relaxed) || is_whole;
        if is_whole {
            self.others().forget_silent(now);
        }
        is_whole
    }

    /// Milliseconds since the last measure, if a measure is due. The next one begins.
    pub(super) fn measure(&self, now: u64) -> Option<u64> {
        let elapsed = now.saturating_sub(self.measured.load(Relaxed));
        (elapsed >= MEASURE_MS).then(|| {
            self.measured.store(now, Relaxed);
            elapsed
        })
    }
}
