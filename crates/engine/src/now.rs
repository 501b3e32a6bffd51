//! Time as the engine sees it: handed in with every call, never read.

/// A point on the monotonic clock in milliseconds since an arbitrary start. Deadlines live on this clock, so that a
/// step of the wall clock neither revives nor kills a message or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// A deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// This moment plus a number of milliseconds, saturating at [`Millis::NEVER`].
    #[inline]
    #[must_use]
    pub fn plus(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// This moment plus a number of seconds, saturating at [`Millis::NEVER`].
    #[inline]
    #[must_use]
    pub fn plus_seconds(self, seconds: u32) -> Self {
        self.plus(u64::from(seconds) * 1000)
    }

    /// Milliseconds from `earlier` to this moment, or 0 when it lies ahead.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The present: one reading of both clocks for a whole turn of the event loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time; every deadline is on this clock.
    pub monotonic: Millis,
    /// Milliseconds since the Unix epoch; used for times that leave the process: exported deadlines and `$SYS` times.
    pub unix: u64,
}

impl Now {
    /// Turns a monotonic deadline into an absolute one that outlives the process ([`Millis::NEVER`] stays never).
    pub fn to_unix(self, deadline: Millis) -> u64 {
        if deadline == Millis::NEVER { u64::MAX } else { moved(deadline.0, self.monotonic.0, self.unix) }
    }

    /// The monotonic deadline of an absolute time, which may have passed while the process was away.
    pub fn from_unix(self, unix: u64) -> Millis {
        if unix == u64::MAX { Millis::NEVER } else { Millis(moved(unix, self.unix, self.monotonic.0)) }
    }
}

/// A time on one clock as a time on another, where `from` and `to` are the same moment. What lies before the other
/// clock's start is its start; a time beyond its end is its last moment that is not never.
fn moved(time: u64, from: u64, to: u64) -> u64 {
    let there = u128::from(time) + u128::from(to);
    u64::try_from(there.saturating_sub(u128::from(from))).unwrap_or(u64::MAX).min(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { monotonic: Millis(5_000), unix: 1_700_000_000_000 };

    #[test]
    fn a_deadline_is_the_same_moment_on_a_clock_with_another_start() {
        let there = Now { monotonic: Millis(9_000_000), unix: NOW.unix + 60_000 };
        let unix = NOW.to_unix(Millis(5_000 + 90_000));
        assert_eq!(unix, 1_700_000_090_000);
        assert_eq!(there.from_unix(unix), Millis(9_000_000 + 30_000));
    }

    #[test]
    fn never_stays_never_and_nothing_else_becomes_it() {
        assert_eq!((NOW.to_unix(Millis::NEVER), NOW.from_unix(u64::MAX)), (u64::MAX, Millis::NEVER));
        assert_eq!(NOW.to_unix(Millis(u64::MAX - 1)), u64::MAX - 1);
        let late = Now { monotonic: Millis(u64::MAX / 2), unix: 0 };
        assert_eq!(late.from_unix(u64::MAX - 1), Millis(u64::MAX - 1));
    }

    #[test]
    fn what_passed_before_this_clock_began_is_over() {
        assert_eq!(NOW.from_unix(NOW.unix - 60_000), Millis(0));
        assert_eq!(NOW.from_unix(0), Millis(0));
    }
}
