//! A broker that takes no more is left alone for a time.

use crate::flows::contexts::Dealing;
use crate::ids::BrokerLinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::Stage;

/// How long a broker that has no room is left alone, milliseconds; each time in a row twice as long.
const PAUSE_MIN_MS: u64 = 100;

/// The longest of these times, milliseconds.
const PAUSE_MAX_MS: u64 = 5_000;

impl Dealing<'_> {
    /// A broker has no room. Earlier messages may return with the same code, and belong to the same refusal.
    pub(crate) fn begin_pause(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        if broker_link.pause.is_on() || broker_link.stage != Stage::Open {
            return;
        }
        broker_link.pause.length_ms = (broker_link.pause.length_ms * 2).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS);
        broker_link.pause.until = now.monotonic.plus(broker_link.pause.length_ms);
        self.broker_links.brokers.note_flaws(key);
        self.broker_links.brokers.fit_window(self.state, key);
        self.broker_links.brokers.set_broker_link_timer(self.state, key);
        self.keep_order(now);
        self.give_queue_away(now, key);
    }

    /// A broker that had no room is asked again, when it is time.
    pub(crate) fn end_pause(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        if broker_link.pause.until > now.monotonic {
            return;
        }
        broker_link.pause.until = Millis::NEVER;
        self.broker_links.brokers.note_flaws(key);
        self.keep_order(now);
        self.broker_links.brokers.open_window(now, self.state, self.layouts, key);
    }

    /// Gives the queue of a broker that cannot take it to another broker, if there is one.
    fn give_queue_away(&mut self, now: Now, key: BrokerLinkKey) {
        let flawed = &self.broker_links.brokers.flawed;
        let fit = |broker_link: &crate::orchestrator::broker_link::BrokerLink| {
            broker_link.stage == Stage::Open
                && broker_link.draining.is_none()
                && !flawed.contains(&broker_link.session.0)
        };
        if self.broker_links.brokers.all.values().any(fit)
            && let Some(session) = self.broker_links.brokers.all.get(&key).map(|broker_link| broker_link.session)
        {
            let queue = crate::orchestrator::broker_link::settle::take_queue(&mut self.state.sessions, session);
            self.deal_queue(now, key, queue, crate::orchestrator::broker_link::settle::ReassignTo::OtherBrokers);
        }
    }
}
