//! A broker that takes no more is left alone for a time.

use crate::flows::contexts::Dealing;
use crate::ids::UplinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::Stage;

/// How long a broker that has no room is left alone, milliseconds; each time in a row twice as long.
const PAUSE_MIN_MS: u64 = 100;

/// The longest of these times, milliseconds.
const PAUSE_MAX_MS: u64 = 5_000;

impl Dealing<'_> {
    /// A broker has no room. Earlier messages may come back with the same code, and belong to the same refusal.
    pub(crate) fn begin_pause(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.pause.is_on() || uplink.stage != Stage::Open {
            return;
        }
        uplink.pause.length_ms = (uplink.pause.length_ms * 2).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS);
        uplink.pause.until = now.monotonic.plus(uplink.pause.length_ms);
        self.uplinks.brokers.note_flaws(key);
        self.uplinks.brokers.fit_window(self.state, key);
        self.uplinks.brokers.set_uplink_timer(self.state, key);
        self.keep_order(now);
        self.give_queue_away(now, key);
    }

    /// A broker that had no room is asked again, when it is time.
    pub(crate) fn end_pause(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.pause.until > now.monotonic {
            return;
        }
        uplink.pause.until = Millis::NEVER;
        self.uplinks.brokers.note_flaws(key);
        self.keep_order(now);
        self.uplinks.brokers.open_window(now, self.state, self.layouts, key);
    }

    /// Gives the queue of a broker that cannot take it to another broker, if there is one.
    fn give_queue_away(&mut self, now: Now, key: UplinkKey) {
        let flawed = &self.uplinks.brokers.flawed;
        let fit = |uplink: &crate::orchestrator::uplink::Uplink| {
            uplink.stage == Stage::Open && uplink.draining.is_none() && !flawed.contains(&uplink.session.0)
        };
        if self.uplinks.brokers.all.values().any(fit)
            && let Some(session) = self.uplinks.brokers.all.get(&key).map(|uplink| uplink.session)
        {
            let queue = crate::orchestrator::uplink::settle::take_queue(&mut self.state.sessions, session);
            self.deal_queue(now, key, queue, crate::orchestrator::uplink::settle::Whereto::Elsewhere);
        }
    }
}
