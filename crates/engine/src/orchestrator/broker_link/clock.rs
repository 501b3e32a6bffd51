//! The clock of message ids. The version of a retained value is made of it, so that of two values of a topic the later one
//! wins, although the wall clocks of members differ.

use crate::now::Now;
use crate::roster::CLOCK_LEAD_MAX_MS;

/// Numbers that a version distinguishes within a millisecond.
const NUMBERS: u64 = 1 << 16;

/// A clock that never goes back, and that follows the member whose clock is ahead. It continues at the rate of the
/// monotonic clock: a step of the wall clock back does not stop it.
#[derive(Debug, Default)]
pub(crate) struct IdClock {
    /// The latest time that the start of the monotonic clock has had on any wall clock, Unix milliseconds.
    start: u64,
    /// The last time that was given out, Unix milliseconds.
    last: u64,
}

impl IdClock {
    /// The clock of another member is ahead by so much. Its values stay when it has gone.
    pub(crate) fn follow(&mut self, now: Now, lead_ms: u64) {
        self.start = self.start.max((now.unix + lead_ms).saturating_sub(now.monotonic.0));
    }

    /// A message of another member has this time in its id. That member's clock may have been set since the two were
    /// linked. A time that no clock of a member has is not followed.
    pub(crate) fn note(&mut self, now: Now, entered: u64) {
        // A later message of the same millisecond may have a lower number.
        let lead_ms = (entered + 1).saturating_sub(now.unix);
        if lead_ms <= CLOCK_LEAD_MAX_MS {
            self.follow(now, lead_ms);
        }
    }

    /// The present time of the clock that is ahead, Unix milliseconds.
    #[inline]
    pub(crate) fn present(&mut self, now: Now) -> u64 {
        self.follow(now, 0);
        self.start + now.monotonic.0
    }

    /// The time for the next message, which has this number.
    #[inline]
    pub(crate) fn time_of(&mut self, now: Now, number: u64) -> u64 {
        // A version has the last digits of the number only.
        let last = self.last + u64::from(number.is_multiple_of(NUMBERS));
        self.last = last.max(self.present(now));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::Millis;

    fn at(unix: u64, monotonic: u64) -> Now {
        Now { monotonic: Millis(monotonic), unix }
    }

    #[test]
    fn times_follow_the_clock_that_is_ahead() {
        let mut clock = IdClock::default();
        assert_eq!(clock.time_of(at(1000, 100), 1), 1000);
        clock.follow(at(1000, 100), 50);
        clock.follow(at(1000, 100), 20);
        assert_eq!(clock.time_of(at(1000, 100), 2), 1050);
        clock.note(at(1001, 101), 5000);
        assert_eq!(clock.time_of(at(1003, 103), 3), 5003);
        assert_eq!(clock.time_of(at(900, 110), 4), 5010, "a clock that went back");
        assert_eq!(clock.time_of(at(900, 110), NUMBERS), 5011, "the numbers of a version begin again");
        assert_eq!(clock.time_of(at(1050, 150), 5), 5050, "a clock that is right again");
        clock.note(at(1050, 150), 1050 + 2 * CLOCK_LEAD_MAX_MS);
        assert_eq!(clock.time_of(at(6000, 5100), NUMBERS + 1), 10_000, "no clock of a member");
    }
}
