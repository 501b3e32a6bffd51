//! Giving memory back after a peak.
//!
//! An allocator keeps what was freed, and tables keep their size; a broker that served a crowd once would hold its
//! memory for ever. So when connections have fallen to half of the highest number since the last time, and things are
//! quiet, tables are shrunk and the allocator is asked to return its free pages. The same happens after a rush of new
//! connections, for what their arrival took for a moment lies free then.

pub(crate) mod program_pages;

use tidegate_engine::Millis;

use crate::limits::{TRIM_LATEST_MS, TRIM_MIN_PEAK, TRIM_MIN_RUSH, TRIM_QUIET_MS};

/// When to give memory back.
#[derive(Debug, Default)]
pub(crate) struct Ebb {
    /// Most connections since memory was last given back.
    peak: usize,
    /// Connections when memory was last given back.
    settled: usize,
    /// Set when the number has fallen or risen far enough: then and when a connection last came or went.
    turned: Option<(Millis, Millis)>,
}

impl Ebb {
    /// A connection came or went, and now there are so many.
    pub(crate) fn note(&mut self, now: Millis, connections: usize) {
        self.peak = self.peak.max(connections);
        let fallen = self.peak >= TRIM_MIN_PEAK && connections < self.peak / 2;
        let risen = connections >= (self.settled * 2).max(self.settled + TRIM_MIN_RUSH);
        if fallen || risen {
            let since = self.turned.map_or(now, |(since, _)| since);
            self.turned = Some((since, now));
        } else {
            self.turned = None;
        }
    }

    /// When memory should be given back; [`Millis::NEVER`] when there is nothing to give, so that nobody wakes for it.
    pub(crate) fn deadline(&self) -> Millis {
        self.turned.map_or(Millis::NEVER, |(since, last)| last.plus(TRIM_QUIET_MS).min(since.plus(TRIM_LATEST_MS)))
    }

    /// Whether now is the time. If so, what there is now is the new peak.
    pub(crate) fn is_due(&mut self, now: Millis, connections: usize) -> bool {
        let due = self.deadline() <= now;
        if due {
            *self = Self { peak: connections, settled: connections, turned: None };
        }
        due
    }
}

/// Memory of the process that no file backs, in bytes: heap, stacks, and what the allocator keeps. None where the system
/// does not tell.
pub(crate) fn of_process() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    anonymous(&status)
}

fn anonymous(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Asks the allocator to return free pages to the system. Does nothing where the allocator cannot be asked.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_half_are_gone_and_it_is_quiet() {
        let mut ebb = Ebb::default();
        ebb.note(Millis(0), 1000);
        ebb.note(Millis(10), 500);
        assert_eq!(ebb.deadline(), Millis::NEVER, "half are still there");
        ebb.note(Millis(20), 499);
        assert_eq!(ebb.deadline(), Millis(20 + TRIM_QUIET_MS));
        ebb.note(Millis(30), 498);
        assert!(!ebb.is_due(Millis(20 + TRIM_QUIET_MS), 498), "one left since");
        assert!(ebb.is_due(Millis(30 + TRIM_QUIET_MS), 498));
        assert_eq!(ebb.deadline(), Millis::NEVER, "what is left is the new peak");
        ebb.note(Millis(9_000), 248);
        assert!(ebb.is_due(Millis(9_000 + TRIM_QUIET_MS), 248));
        ebb.note(Millis(11_000), 0);
        assert_eq!(ebb.deadline(), Millis::NEVER, "such a small peak is not worth it");
    }

    #[test]
    fn constant_coming_and_going_delays_it_only_so_long() {
        let mut ebb = Ebb::default();
        ebb.note(Millis(0), 1000);
        for now in 0..TRIM_LATEST_MS {
            ebb.note(Millis(now), 400 + usize::from(now % 2 == 0));
        }
        assert_eq!(ebb.deadline(), Millis(TRIM_LATEST_MS));
        ebb.note(Millis(TRIM_LATEST_MS), 600);
        assert_eq!(ebb.deadline(), Millis::NEVER, "the crowd is back");
    }

    #[test]
    fn after_a_rush_what_it_took_for_a_moment_is_given_back() {
        let mut ebb = Ebb::default();
        for connections in 1..=5000 {
            ebb.note(Millis(connections), connections as usize);
        }
        assert_eq!(ebb.deadline(), Millis(5000 + TRIM_QUIET_MS));
        assert!(ebb.is_due(Millis(5000 + TRIM_QUIET_MS), 5000));
        ebb.note(Millis(9000), 9999);
        assert_eq!(ebb.deadline(), Millis::NEVER, "not yet twice as many");
    }

    #[test]
    fn anonymous_memory_is_read_from_the_status() {
        assert_eq!(anonymous("VmRSS:\t 100 kB\nRssAnon:\t    4272 kB\nRssFile:\t 1 kB\n"), Some(4272 * 1024));
        assert_eq!(anonymous("VmRSS:\t 100 kB\n"), None);
    }

    #[test]
    fn a_small_broker_never_wakes_for_it() {
        let mut ebb = Ebb::default();
        ebb.note(Millis(0), TRIM_MIN_PEAK - 1);
        ebb.note(Millis(1), 0);
        assert_eq!(ebb.deadline(), Millis::NEVER);
        return_free_pages();
    }
}
