//! A turn begins.

use crate::engine::Engine;
use crate::flows::subscribe::subscribing::subscribing;
use crate::now::Now;
use crate::publish::turn_share::Share;
use crate::subscribe::steps::FILTER_WORK_PER_TURN;

impl Engine {
    /// Begins a turn: takes the next steps of long work, and lets those go on who waited for it, as long as it has room,
    /// each after the other.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.turn_share.begin(&self.state.to_write);
        self.endings.begin_turn(FILTER_WORK_PER_TURN);
        self.run_fan_outs(now);
        self.run_steps(now);
        self.endings.run(now, &mut subscribing!(self));
        for share in [Share::Narrow, Share::Wide] {
            let waiting = self.turn_share.waiting.len() + self.turn_share.waiting_wide.len();
            for _ in 0..waiting {
                if share == Share::Wide && !self.fan_outs.is_empty() {
                    return;
                }
                let Some(key) = self.turn_share.next(share) else { break };
                self.unpark(now, key);
                self.after_frame(now);
                if self.turn_share.is_gone(key) {
                    self.handle_transport_closed(now, key);
                }
            }
        }
    }
}
