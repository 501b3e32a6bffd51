//! How fast a client, all clients of a listener, and a tenant may publish. Beyond it PUBLISH packets wait; nothing is
//! dropped.

use crate::now::{Millis, Now};
use crate::settings::ListenerSettings;

const NANOSECONDS: u64 = 1_000_000_000;

pub(crate) const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// A bucket of tokens, kept as the time at which it will be full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// Nanoseconds of the monotonic clock.
    full_at: u64,
}

impl Bucket {
    /// Takes tokens that return at `rate` per second into a bucket of `burst`; returns for how many nanoseconds it
    /// is short of them. A rate of 0 is no limit.
    pub(crate) fn take(&mut self, now: u64, amount: u64, rate: u64, burst: u64) -> u64 {
        let time_of = |tokens: u64| {
            let taken = u128::from(tokens) * u128::from(NANOSECONDS);
            taken.checked_div(u128::from(rate)).map_or(0, |time| u64::try_from(time).unwrap_or(u64::MAX))
        };
        self.full_at = self.full_at.max(now).saturating_add(time_of(amount));
        self.full_at.saturating_sub(now.saturating_add(time_of(burst)))
    }
}

/// A rate per second, and the burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    rate: u64,
    burst: u64,
}

impl Limit {
    /// Without a burst, the amount of one second may come at once.
    fn new(rate: u64, burst: u64) -> Self {
        Self { rate, burst: if burst == 0 { rate } else { burst } }
    }
}

/// The recent publishes of one client or of all clients of a listener.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Published {
    messages: Bucket,
    bytes: Bucket,
}

impl Published {
    /// Counts a packet; returns how many nanoseconds its sender has to wait.
    pub(crate) fn take(&mut self, now: Now, packet_len: usize, messages: Limit, bytes: Limit) -> u64 {
        let at = nanoseconds(now);
        let messages = self.messages.take(at, 1, messages.rate, messages.burst);
        let bytes = self.bytes.take(at, packet_len as u64, bytes.rate, bytes.burst);
        messages.max(bytes)
    }
}

/// The recent publishes of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) published: Published,
    /// Until when the client waits, or never.
    pub waits_until: Millis,
}

pub(crate) fn nanoseconds(now: Now) -> u64 {
    now.monotonic.0.saturating_mul(NANOSECONDS_PER_MILLISECOND)
}

impl ListenerSettings {
    /// Whether its clients may publish only so fast, each or all together.
    #[inline]
    pub(crate) fn limits_rate(&self) -> bool {
        self.max_message_rate != 0 || self.max_byte_rate != 0 || self.limits_total_rate()
    }

    pub(crate) fn limits_total_rate(&self) -> bool {
        self.max_total_message_rate != 0 || self.max_total_byte_rate != 0
    }

    /// The publish rates allowed to one client.
    pub(crate) fn client_rate(&self) -> (Limit, Limit) {
        let messages = Limit::new(u64::from(self.max_message_rate), u64::from(self.message_burst));
        (messages, Limit::new(self.max_byte_rate, self.byte_burst))
    }

    /// The publish rates allowed to all clients together.
    pub(crate) fn total_rate(&self) -> (Limit, Limit) {
        (Limit::new(u64::from(self.max_total_message_rate), 0), Limit::new(self.max_total_byte_rate, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = NANOSECONDS;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::default();
        let mut take = |now: u64| bucket.take(now, 1, 10, 3);
        assert_eq!([take(0), take(0), take(0)], [0, 0, 0]);
        assert_eq!(take(0), SECOND / 10);
        assert_eq!(take(SECOND / 10), SECOND / 10);
        assert_eq!(take(SECOND), 0, "it has filled meanwhile");
    }

    #[test]
    fn whatever_comes_no_more_passes_than_burst_and_rate_allow() {
        for (rate, burst, amount) in [(1, 1, 1), (7, 3, 2), (1000, 1, 999), (50, 500, 10)] {
            let mut bucket = Bucket::default();
            let (mut now, mut passed) = (0, 0);
            while now < 100 * SECOND {
                let wait = bucket.take(now, amount, rate, burst);
                passed += amount;
                now += wait;
                let allowed = burst + now / SECOND * rate + rate + amount;
                assert!(passed <= allowed, "{passed} of {allowed} at {now}");
                now += u64::from(wait == 0);
            }
            assert!(passed + rate + amount >= rate * 100, "{passed} are too few");
        }
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert_eq!(Bucket::default().take(5, u64::MAX, 0, 0), 0);
    }
}
