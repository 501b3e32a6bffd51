//! The only reader of clocks: everything else is handed a [`Now`].

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_engine::{Millis, Now};

/// Both clocks of the process. Copies share their start, so that a deadline means the same on every shard.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose monotonic time begins at one second, so that 0 can mean "already due".
    pub fn start() -> Self {
        let now = Instant::now();
        Self { start: now.checked_sub(Duration::from_secs(1)).unwrap_or(now) }
    }

    /// Reads both clocks.
    pub fn now(self) -> Now {
        let monotonic = Instant::now().saturating_duration_since(self.start);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: Millis(milliseconds(monotonic)), unix: milliseconds(unix) }
    }
}

impl Clock {
    /// The monotonic clock of [`Clock::now`], microseconds.
    pub(crate) fn micros(self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A moment as a deadline: never earlier than it is.
    #[cfg(feature = "quic")]
    pub(crate) fn at(self, moment: Instant) -> Millis {
        let nanoseconds = moment.saturating_duration_since(self.start).as_nanos();
        Millis(u64::try_from(nanoseconds.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// Time in which this thread has used a processor or has waited for one, microseconds. `None` where the system does not
/// count it.
///
/// It waits while other processes use all processors, and while its control group has used up its quota. While the
/// process is stopped it does neither. Where the system does not count the waiting, only the use counts.
pub(crate) fn claimed_time_us() -> Option<u64> {
    let waited = std::fs::read_to_string("/proc/thread-self/schedstat").ok().and_then(|text| waited_us(&text));
    Some(cpu_time_us()?.saturating_add(waited.unwrap_or(0)))
}

/// The time that a thread has waited for a processor, from its file `schedstat`, microseconds.
fn waited_us(schedstat: &str) -> Option<u64> {
    let nanoseconds: u64 = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(nanoseconds / 1000)
}

/// CPU time that this thread has used, microseconds. `None` where the system does not count it.
#[expect(unsafe_code, reason = "clock_gettime has no safe wrapper among the crates we use")]
fn cpu_time_us() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a `timespec` to the given place, which is one.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let whole = u64::try_from(time.tv_sec).ok()?.checked_mul(1_000_000)?;
    (outcome == 0).then_some(whole + u64::try_from(time.tv_nsec).ok()? / 1000)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How long to wait for events when the next deadline is `deadline`: `None` waits without end.
pub(crate) fn time_until(deadline: Millis, now: Millis) -> Option<Duration> {
    (deadline != Millis::NEVER).then(|| Duration::from_millis(deadline.since(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_processor_is_read_from_schedstat() {
        assert_eq!(waited_us("82675090 1361342884 67\n"), Some(1_361_342));
        assert_eq!((waited_us("82675090"), waited_us("a b c")), (None, None));
    }

    #[test]
    fn a_claim_of_processor_time_only_grows() {
        let before = claimed_time_us().expect("the system counts it");
        assert!(claimed_time_us().is_some_and(|after| after >= before));
    }

    #[test]
    fn waiting_ends_at_the_deadline_and_never_without_one() {
        assert_eq!(time_until(Millis::NEVER, Millis(5)), None);
        assert_eq!(time_until(Millis(8), Millis(5)), Some(Duration::from_millis(3)));
        assert_eq!(time_until(Millis(2), Millis(5)), Some(Duration::ZERO));
    }

    #[test]
    fn the_cpu_time_of_a_thread_does_not_go_back() {
        let first = cpu_time_us().unwrap();
        assert!(cpu_time_us().unwrap() >= first);
    }

    #[test]
    fn copies_of_a_clock_agree() {
        let clock = Clock::start();
        let copy = clock;
        let (first, second) = (clock.now(), copy.now());
        assert!(second.monotonic >= first.monotonic);
        assert!(first.unix > 1_600_000_000_000, "the wall clock counts from 1970");
    }
}
