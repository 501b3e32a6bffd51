//! The clock of message ids. The version of a retained value is made of it, so that of two values of a topic the later one
//! wins, although the wall clocks of members differ.

use crate::roster::CLOCK_LEAD_MAX_MS;

/// Numbers that a version distinguishes within a millisecond.
const NUMBERS: u64 = 1 << 16;

/// A clock that never goes back, and that follows the member whose clock is ahead.
#[derive(Debug, Default)]
pub(crate) struct IdClock {
    /// By how much the clock of another member is ahead, milliseconds.
    lead_ms: u64,
    /// The last time that was given out, Unix milliseconds.
    last: u64,
}

impl IdClock {
    /// The clock of another member is ahead by so much. Its values stay when it has gone.
    pub(crate) fn follow(&mut self, lead_ms: u64) {
        self.lead_ms = self.lead_ms.max(lead_ms);
    }

    /// A message of another member has this time in its id. That member's clock may have been set since the two were
    /// linked. A time that no clock of a member has is not followed.
    pub(crate) fn note(&mut self, entered: u64, unix: u64) {
        // A later message of the same millisecond may have a lower number.
        let lead_ms = (entered + 1).saturating_sub(unix);
        if lead_ms <= CLOCK_LEAD_MAX_MS {
            self.follow(lead_ms);
        }
    }

    /// The present time of the clock that is ahead, Unix milliseconds.
    pub(crate) fn present(&self, unix: u64) -> u64 {
        unix + self.lead_ms
    }

    /// The time for the next message, which has this number.
    #[inline]
    pub(crate) fn time_of(&mut self, unix: u64, number: u64) -> u64 {
        // A version has the last digits of the number only, and a clock that has gone back stands still.
        let last = self.last + u64::from(number.is_multiple_of(NUMBERS));
        self.last = last.max(unix + self.lead_ms);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_clock_that_is_ahead() {
        let mut clock = IdClock::default();
        assert_eq!(clock.time_of(1000, 1), 1000);
        clock.follow(50);
        clock.follow(20);
        assert_eq!(clock.time_of(1000, 2), 1050);
        clock.note(5000, 1001);
        assert_eq!(clock.time_of(1003, 3), 5003);
        assert_eq!(clock.time_of(900, 4), 5003, "a clock that went back");
        assert_eq!(clock.time_of(900, NUMBERS), 5004, "the numbers of a version begin again");
        clock.note(1000 + 2 * CLOCK_LEAD_MAX_MS, 1000);
        assert_eq!(clock.time_of(6000, NUMBERS + 1), 10_000, "no clock of a member");
    }
}
