//! A broker that has no room (reason code 0x97) is given nothing for a while: its messages go to others, or wait.

use super::{Stage, UplinkKey};
use crate::groups::dealing::Dealing;
use crate::now::{Millis, Now};

/// How long a broker that has no room is left alone, milliseconds; each time in a row twice as long.
const PAUSE_MIN_MS: u64 = 100;
/// The longest of these times, milliseconds.
const PAUSE_MAX_MS: u64 = 5_000;

/// Until when a broker is given nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// The end of it, [`Millis::NEVER`] where there is none.
    pub(super) until: Millis,
    /// How long the last one was; 0 when the broker has taken a message since.
    length_ms: u64,
}

impl Default for Pause {
    fn default() -> Self {
        Self { until: Millis::NEVER, length_ms: 0 }
    }
}

impl Pause {
    /// Whether the broker is given nothing.
    pub(super) fn is_on(&self) -> bool {
        self.until != Millis::NEVER
    }

    /// The broker has taken a message.
    pub(super) fn note_room(&mut self) {
        if !self.is_on() {
            self.length_ms = 0;
        }
    }

    /// The connection has ended, and what the broker said on it.
    pub(super) fn forget(&mut self) {
        self.until = Millis::NEVER;
    }
}

impl Dealing<'_> {
    /// A broker has no room. What it was given before this was known may come back in the same way, and is the same
    /// refusal.
    pub(super) fn begin_pause(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.pause.is_on() || uplink.stage != Stage::Open {
            return;
        }
        uplink.pause.length_ms = (uplink.pause.length_ms * 2).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS);
        uplink.pause.until = now.monotonic.plus(uplink.pause.length_ms);
        self.uplinks.brokers.note_flaws(key);
        self.uplinks.brokers.fit_window(self.desk, key);
        self.uplinks.brokers.set_uplink_timer(self.desk, key);
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
        self.uplinks.brokers.open_window(now, self.desk, self.layouts, key);
    }

    /// What waits for a broker that cannot take it goes to another, if there is one.
    fn give_queue_away(&mut self, now: Now, key: UplinkKey) {
        let flawed = &self.uplinks.brokers.flawed;
        let fit = |uplink: &super::Uplink| {
            uplink.stage == Stage::Open && uplink.draining.is_none() && !flawed.contains(&uplink.session.0)
        };
        if self.uplinks.brokers.all.values().any(fit)
            && let Some(session) = self.uplinks.brokers.all.get(&key).map(|uplink| uplink.session)
        {
            let queue = super::settle::take_queue(&mut self.desk.sessions, session);
            self.deal_queue(now, key, queue, super::settle::Whereto::Elsewhere);
        }
    }
}
