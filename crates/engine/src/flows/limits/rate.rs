//! Publishers wait for their rate.

use crate::event::Delay;
use crate::flows::contexts::Parking;
use crate::ids::ConnectionKey;
use crate::limits::rate::{NANOSECONDS_PER_MILLISECOND, Published, Rate, nanoseconds};
use crate::now::{Millis, Now};
use crate::settings::ListenerSettings;
use crate::timers::Timer;

impl Parking<'_> {
    /// Counts a PUBLISH packet towards the rates of its client, its listener and its tenant; the client waits with the
    /// next one if that was too fast. Waiting packets do not count yet, so that all clients take turns.
    #[cold]
    pub(crate) fn charge_rate(&mut self, now: Now, key: ConnectionKey, packet_len: usize) {
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        // Principals come through no listener.
        let limits = self.state.settings.listeners.get(usize::from(connection.listener.0));
        if connection.leaving || connection.phase != crate::connection::Phase::Open {
            return;
        }
        // Publications of the broker itself do not count against the rate of a tenant's clients.
        let counts = !connection.is_own();
        let of_tenant = counts.then(|| self.state.tenants.take_message(connection.tenant, nanoseconds(now))).flatten();
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
            let all = self.state.published_by_listener.get_mut(place).filter(|_| limits.limits_total_rate());
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
        self.state.timers.cancel(before, Timer::Rate(key));
        self.state.timers.set(until, Timer::Rate(key));
        if before == Millis::NEVER {
            self.state.counters.rate_limited += 1;
            self.state.reports().tell_delayed(delay, key);
            self.park(now, key);
        }
    }

    /// True if a parked client keeps waiting for its rate alone, although its time to wait for others is over.
    pub(crate) fn waits_for_rate(&mut self, key: ConnectionKey) -> bool {
        let timeout = self.state.settings.limits.block_timeout_ms;
        let Some(connection) = self.state.connections.get_mut(key) else { return false };
        let Some(extra) = connection.extra.as_mut() else { return false };
        let waits_until = extra.rate.as_ref().map_or(Millis::NEVER, |rate| rate.waits_until);
        let Some(parked) = extra.parked.as_mut().filter(|_| waits_until != Millis::NEVER) else { return false };
        parked.waits = 1;
        parked.askers = Vec::new();
        parked.until = waits_until.plus(timeout);
        self.state.timers.set(parked.until, Timer::Parked(key));
        true
    }
}
