//! How fast a client, all clients of a listener, and a tenant may publish. Beyond it PUBLISH packets wait; nothing is
//! dropped.

use crate::connection::parking::Parking;
use crate::desk::Timer;
use crate::event::Delay;
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};
use crate::settings::ListenerSettings;

const NANOSECONDS: u64 = 1_000_000_000;

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// A bucket of tokens, kept as the time at which it will be full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    /// Nanoseconds of the monotonic clock.
    full_at: u64,
}

impl Bucket {
    /// Takes tokens that come back at `rate` per second into a bucket of `burst`; returns for how many nanoseconds it
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

/// A rate per second, and what may come at once.
#[derive(Clone, Copy, Debug)]
struct Limit {
    rate: u64,
    burst: u64,
}

impl Limit {
    /// Without a burst of its own, as much as in a second may come at once.
    fn new(rate: u64, burst: u64) -> Self {
        Self { rate, burst: if burst == 0 { rate } else { burst } }
    }
}

/// What has been published lately, by one client or by all of a listener.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Published {
    messages: Bucket,
    bytes: Bucket,
}

impl Published {
    /// Counts a packet; returns for how many nanoseconds whoever sent it has to wait.
    fn take(&mut self, now: Now, packet_len: usize, messages: Limit, bytes: Limit) -> u64 {
        let at = nanoseconds(now);
        let messages = self.messages.take(at, 1, messages.rate, messages.burst);
        let bytes = self.bytes.take(at, packet_len as u64, bytes.rate, bytes.burst);
        messages.max(bytes)
    }
}

/// What a client has published lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    published: Published,
    /// Until when the client waits, or never.
    pub waits_until: Millis,
}

fn nanoseconds(now: Now) -> u64 {
    now.monotonic.0.saturating_mul(NANOSECONDS_PER_MILLISECOND)
}

impl ListenerSettings {
    /// Whether its clients may publish only so fast, each or all together.
    #[inline]
    pub(crate) fn limits_rate(&self) -> bool {
        self.max_message_rate != 0 || self.max_byte_rate != 0 || self.limits_total_rate()
    }

    fn limits_total_rate(&self) -> bool {
        self.max_total_message_rate != 0 || self.max_total_byte_rate != 0
    }

    /// What one client may publish.
    fn client_rate(&self) -> (Limit, Limit) {
        let messages = Limit::new(u64::from(self.max_message_rate), u64::from(self.message_burst));
        (messages, Limit::new(self.max_byte_rate, self.byte_burst))
    }

    /// What all clients may publish.
    fn total_rate(&self) -> (Limit, Limit) {
        (Limit::new(u64::from(self.max_total_message_rate), 0), Limit::new(self.max_total_byte_rate, 0))
    }
}

impl Parking<'_> {
    /// Counts a PUBLISH packet towards what its client, all clients of its listener and its client's tenant may
    /// publish; the client waits with the next one if that was too fast. What waits does not count yet, so that all
    /// take turns.
    #[cold]
    pub(crate) fn charge_rate(&mut self, now: Now, key: ConnectionKey, packet_len: usize) {
        let Some(connection) = self.desk.connections.get_mut(key) else { return };
        // Principals come through no listener.
        let limits = self.desk.settings.listeners.get(usize::from(connection.listener.0));
        if connection.leaving || connection.phase != crate::connection::Phase::Open {
            return;
        }
        let of_tenant = self.desk.tenants.take_message(connection.tenant, nanoseconds(now));
        if of_tenant.is_none() && !limits.is_some_and(ListenerSettings::limits_rate) {
            return;
        }
        let place = usize::from(connection.listener.0);
        let fresh = || Box::new(Rate { published: Published::default(), waits_until: Millis::NEVER });
        let rate = connection.extra_mut().rate.get_or_insert_with(fresh);
        let (mut own, mut of_listener) = (0, 0);
        if let Some(limits) = limits {
            let (messages, bytes) = limits.client_rate();
            own = rate.published.take(now, packet_len, messages, bytes);
            let (messages, bytes) = limits.total_rate();
            let all = self.desk.published_by_listener.get_mut(place).filter(|_| limits.limits_total_rate());
            of_listener = all.map_or(0, |all| all.take(now, packet_len, messages, bytes));
        }
        let waits =
            [(own, Delay::Rate), (of_listener, Delay::ListenerRate), (of_tenant.unwrap_or(0), Delay::TenantRate)];
        let Some((wait, delay)) = waits.into_iter().max_by_key(|(wait, _)| *wait) else { return };
        let wait = wait.div_ceil(NANOSECONDS_PER_MILLISECOND);
        if wait == 0 {
            return;
        }
        let (before, until) = (rate.waits_until, now.monotonic.plus(wait));
        rate.waits_until = until;
        self.desk.timers.cancel(before, Timer::Rate(key));
        self.desk.timers.set(until, Timer::Rate(key));
        if before == Millis::NEVER {
            self.desk.counters.rate_limited += 1;
            self.desk.reports().tell_delayed(delay, key);
            self.park(now, key);
        }
    }

    /// Whether a parked client goes on waiting, for its rate alone, although it has waited as long as it may for
    /// others.
    pub(crate) fn waits_for_rate(&mut self, key: ConnectionKey) -> bool {
        let timeout = self.settings.limits.block_timeout_ms;
        let Some(connection) = self.desk.connections.get_mut(key) else { return false };
        let Some(extra) = connection.extra.as_mut() else { return false };
        let waits_until = extra.rate.as_ref().map_or(Millis::NEVER, |rate| rate.waits_until);
        let Some(parked) = extra.parked.as_mut().filter(|_| waits_until != Millis::NEVER) else { return false };
        parked.waits = 1;
        parked.askers = Vec::new();
        parked.until = waits_until.plus(timeout);
        self.desk.timers.set(parked.until, Timer::Parked(key));
        true
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
