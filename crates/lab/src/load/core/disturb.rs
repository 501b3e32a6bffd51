//! Disturbances of clients: they leave and return, alone or all at once, or connect twice.

use super::run::RunState;
use super::{Action, Core, MILLI, State};
use crate::load::plan::Disturbance;
use crate::load::timers::Timer;

impl RunState {
    /// Sets when each client is disturbed for the first time.
    pub(super) fn set_disturbances(&mut self, began_ns: u64) {
        for (client, place) in (0..).zip(self.clients.iter()) {
            let group = &self.plan.groups[usize::from(place.group)];
            for (number, disturbance) in (0..).zip(&group.disturbances) {
                let disturbed = disturbance.share() * f64::from(group.count);
                if f64::from(place.number) + 0.5 >= disturbed {
                    continue;
                }
                let after_ms = match *disturbance {
                    // Spread over the time online, so that about the same number is away at any time.
                    Disturbance::Churn { online_ms, .. } => {
                        #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds is far below 2^53")]
                        #[expect(clippy::cast_sign_loss, reason = "all numbers are positive")]
                        let after_ms = (online_ms as f64 * f64::from(place.number + 1) / disturbed) as u64;
                        after_ms
                    }
                    Disturbance::Storm { at_ms, .. } | Disturbance::Takeover { at_ms, .. } => at_ms,
                };
                self.timers.set(began_ns + after_ms * MILLI, Timer::Disturb { client, disturbance: number });
            }
        }
    }
}

impl Core {
    pub(super) fn disturb(&mut self, client: u32, disturbance: u8, now_ns: u64) {
        let place = &self.run.clients[client];
        let group = &self.run.plan.groups[usize::from(place.group)];
        let over = now_ns >= self.run.times.measured_to;
        let Some(&kind) = group.disturbances.get(usize::from(disturbance)).filter(|_| !over) else { return };
        let connected = place.is_connected();
        match kind {
            Disturbance::Churn { online_ms, offline_ms, abrupt, .. } => {
                if connected {
                    self.send_away(client, abrupt, offline_ms, now_ns);
                }
                let again_ns = now_ns + (online_ms + offline_ms) * MILLI;
                self.run.timers.set(again_ns, Timer::Disturb { client, disturbance });
            }
            Disturbance::Storm { offline_ms, .. } if connected => self.send_away(client, true, offline_ms, now_ns),
            Disturbance::Takeover { .. } if connected => {
                self.gone_away(client, now_ns);
                // The old connection stays open: it is for the broker to end it.
                self.run.clients[client].slot ^= 1;
                self.run.dial(client, now_ns);
            }
            Disturbance::Storm { .. } | Disturbance::Takeover { .. } => {}
        }
    }

    fn send_away(&mut self, client: u32, abrupt: bool, offline_ms: u64, now_ns: u64) {
        let place = &self.run.clients[client];
        let (connection, epoch) = (place.connection(client), place.epoch);
        if abrupt {
            self.run.clients.request(Action::Cut(connection));
        } else {
            self.run.clients.disconnect(client);
        }
        self.gone_away(client, now_ns);
        debug_assert_eq!(self.run.clients[client].state, State::Away);
        self.run.timers.set(now_ns + offline_ms * MILLI, Timer::Return { client, epoch });
    }
}
