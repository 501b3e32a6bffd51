//! Giving memory back after a peak.
//!
//! An allocator keeps freed memory, and tables keep their size, so a broker would keep the memory of its peak.
//! Therefore each turn notes the bytes that a shard holds, by the engine's own sums. When enough of the highest amount
//! since the last time was released, and usage is quiet, tables are shrunk and the allocator is asked to return its
//! free pages. The same happens after a rush of new connections, whose handshakes leave free memory behind.

pub(crate) mod program_pages;
pub(crate) mod room;

use tidegate_engine::Millis;
use tidegate_proc::{bytes_after, read};

use crate::limits::{
    CONNECTION_BYTES, TRIM_LATEST_MS, TRIM_MIN_BYTES, TRIM_MIN_RUSH, TRIM_MIN_SHARE, TRIM_QUIET_MS, TRIM_STEP_BYTES,
};

/// The memory of a shard at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Bytes of the engine: messages, sessions, subscriptions.
    pub bytes: u64,
    /// Open connections.
    pub connections: usize,
}

impl Held {
    /// All of it in bytes.
    fn total(self) -> u64 {
        self.bytes.saturating_add(self.connections as u64 * CONNECTION_BYTES)
    }
}

/// Since when there is memory to give back.
#[derive(Clone, Copy, Debug)]
struct Due {
    since: Millis,
    /// When usage last changed by much.
    last: Millis,
    /// The usage then.
    held: Held,
}

/// When to give memory back.
#[derive(Debug, Default)]
pub(crate) struct TrimPolicy {
    /// Most bytes held since memory was last given back.
    peak: u64,
    /// Connections when memory was last given back.
    settled: usize,
    due: Option<Due>,
}

impl TrimPolicy {
    /// Notes the current usage.
    pub(crate) fn note(&mut self, now: Millis, held: Held) {
        let total = held.total();
        self.peak = self.peak.max(total);
        let fallen = self.peak - total >= TRIM_MIN_BYTES.max(self.peak / TRIM_MIN_SHARE);
        let risen = held.connections >= (self.settled * 2).max(self.settled + TRIM_MIN_RUSH);
        if !fallen && !risen {
            self.due = None;
            return;
        }
        let due = self.due.get_or_insert(Due { since: now, last: now, held });
        let step = due.held.total().abs_diff(total) >= TRIM_STEP_BYTES;
        if step || (risen && due.held.connections != held.connections) {
            (due.last, due.held) = (now, held);
        }
    }

    /// Time at which memory should be returned; [`Millis::NEVER`] without memory to return, so that no turn begins for
    /// it.
    pub(crate) fn deadline(&self) -> Millis {
        let at = |due: Due| due.last.plus(TRIM_QUIET_MS).min(due.since.plus(TRIM_LATEST_MS));
        self.due.map_or(Millis::NEVER, at)
    }

    /// Whether to return memory now. If so, the current usage is the new peak.
    pub(crate) fn is_due(&mut self, now: Millis, held: Held) -> bool {
        let due = self.deadline() <= now;
        if due {
            *self = Self { peak: held.total(), settled: held.connections, due: None };
        }
        due
    }
}

/// Anonymous memory of the process, in bytes: heap, stacks, and free memory of the allocator. `None` where the system
/// does not report it.
pub(crate) fn of_process() -> Option<u64> {
    bytes_after(&read("/proc/self/status")?, "RssAnon:")
}

/// Asks the allocator to return free pages to the system. No effect where the allocator has no such call.
pub(crate) fn return_free_pages() {
    trim::trim();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's malloc_trim has no safe wrapper among the crates we use")]
mod trim {
    /// Returns free pages of all of glibc's arenas.
    pub(super) fn trim() {
        // SAFETY: `malloc_trim` may be called at any time from any thread [malloc_trim(3): MT-Safe]; it takes a number
        // and touches only memory that is free.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod trim {
    pub(super) fn trim() {}
}

/// Has all threads share one arena of the allocator, where the address space of the process is limited. glibc reserves
/// 64 MiB of it for each thread's own arena, whether they are used or not. Called before threads are started.
pub fn share_allocator_arena() {
    arenas::share();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc's mallopt has no safe wrapper among the crates we use")]
mod arenas {
    pub(super) fn share() {
        // SAFETY: `mallopt` takes two numbers, and no other thread allocates yet [mallopt(3): MT-Unsafe init].
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod arenas {
    pub(super) fn share() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn messages(bytes: u64) -> Held {
        Held { bytes, connections: 10 }
    }

    fn crowd(connections: usize) -> Held {
        Held { bytes: 0, connections }
    }

    #[test]
    fn memory_is_given_back_after_a_peak_of_messages() {
        let mut policy = TrimPolicy::default();
        policy.note(Millis(0), messages(100 * MIB));
        policy.note(Millis(10), messages(90 * MIB));
        assert_eq!(policy.deadline(), Millis::NEVER, "a tenth is not worth it");
        policy.note(Millis(20), messages(60 * MIB));
        assert_eq!(policy.deadline(), Millis(20 + TRIM_QUIET_MS));
        policy.note(Millis(30), messages(0));
        assert!(!policy.is_due(Millis(20 + TRIM_QUIET_MS), messages(0)), "much has been released since");
        policy.note(Millis(40), messages(10_000));
        assert!(policy.is_due(Millis(30 + TRIM_QUIET_MS), messages(10_000)), "a few bytes do not delay it");
        assert_eq!(policy.deadline(), Millis::NEVER, "the current usage is the new peak");
    }

    #[test]
    fn memory_is_given_back_when_connections_have_left() {
        let mut policy = TrimPolicy::default();
        policy.note(Millis(0), crowd(2000));
        policy.note(Millis(20), crowd(999));
        assert_eq!(policy.deadline(), Millis(20 + TRIM_QUIET_MS));
        assert!(policy.is_due(Millis(20 + TRIM_QUIET_MS), crowd(999)));
        policy.note(Millis(9_000), crowd(400));
        assert!(policy.is_due(Millis(9_000 + TRIM_QUIET_MS), crowd(400)));
    }

    #[test]
    fn constant_change_delays_it_only_so_long() {
        let mut policy = TrimPolicy::default();
        policy.note(Millis(0), messages(100 * MIB));
        for now in 0..TRIM_LATEST_MS {
            policy.note(Millis(now), messages((30 + 20 * (now % 2)) * MIB));
        }
        assert_eq!(policy.deadline(), Millis(TRIM_LATEST_MS));
        policy.note(Millis(TRIM_LATEST_MS), messages(99 * MIB));
        assert_eq!(policy.deadline(), Millis::NEVER, "the peak is back");
    }

    #[test]
    fn temporary_memory_of_a_rush_is_returned() {
        let mut policy = TrimPolicy::default();
        for connections in 1..=5000 {
            policy.note(Millis(connections), crowd(connections as usize));
        }
        assert_eq!(policy.deadline(), Millis(5000 + TRIM_QUIET_MS));
        assert!(policy.is_due(Millis(5000 + TRIM_QUIET_MS), crowd(5000)));
        policy.note(Millis(9000), crowd(9999));
        assert_eq!(policy.deadline(), Millis::NEVER, "not yet twice as many");
    }

    #[test]
    fn a_small_broker_never_wakes_for_it() {
        let mut policy = TrimPolicy::default();
        policy.note(Millis(0), messages(TRIM_MIN_BYTES - 1));
        policy.note(Millis(1), messages(0));
        assert_eq!(policy.deadline(), Millis::NEVER);
        return_free_pages();
    }
}
