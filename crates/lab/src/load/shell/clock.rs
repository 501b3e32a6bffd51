//! The clocks: time that all processes of a run have in common, and the CPU time of the thread.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Time in nanoseconds since a run's zero, on the clock that the processes of a machine have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero_ns: u64,
    zero_unix_ns: u64,
}

#[expect(clippy::cast_sign_loss, reason = "the monotonic clock and CPU times are never negative")]
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Clock {
    /// A run's zero is now.
    pub(crate) fn start() -> Self {
        Self::at(nanoseconds(clock_gettime(ClockId::Monotonic)))
    }

    /// A run's zero is this time of the monotonic clock.
    pub(crate) fn at(zero_ns: u64) -> Self {
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let passed_ns = nanoseconds(clock_gettime(ClockId::Monotonic)).saturating_sub(zero_ns);
        Self { zero_ns, zero_unix_ns: unix_ns.saturating_sub(passed_ns) }
    }

    /// The run's zero on the monotonic clock, for other processes.
    pub(crate) const fn zero_ns(self) -> u64 {
        self.zero_ns
    }

    /// The run's zero on the system's clock, in nanoseconds since 1970.
    pub(crate) const fn zero_unix_ns(self) -> u64 {
        self.zero_unix_ns
    }

    /// Nanoseconds since the run's zero.
    pub(crate) fn now_ns(self) -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic)).saturating_sub(self.zero_ns)
    }

    /// A time of the run on the monotonic clock.
    #[expect(clippy::cast_possible_wrap, reason = "a machine does not run for 292 years")]
    pub(crate) fn absolute(self, ns: u64) -> Timespec {
        let ns = self.zero_ns + ns;
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
    }

    /// The CPU time of this thread.
    pub(crate) fn cpu_ns() -> u64 {
        nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
    }
}
