//! A turn begins.

use crate::engine::facets::TimerCalls;
use crate::flows::contexts::subscribing;
use crate::now::Now;
use crate::publish::turn_share::Share;

impl TimerCalls<'_> {
    /// Begins a turn: takes the next steps of long work, and resumes its waiting clients one after the other, while the
    /// turn has room.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.engine.turn_share.begin(&self.engine.state.to_write);
        self.engine.endings.begin_turn();
        self.engine.pipeline().run_fan_outs(now);
        self.engine.steps().run_steps(now);
        self.engine.endings.run(now, &mut subscribing!(self.engine));
        for share in [Share::Narrow, Share::Wide] {
            let waiting = self.engine.turn_share.waiting.len() + self.engine.turn_share.waiting_wide.len();
            for _ in 0..waiting {
                if share == Share::Wide && !self.engine.fan_outs.is_empty() {
                    return;
                }
                let Some(key) = self.engine.turn_share.next(share) else { break };
                self.engine.waiting().unpark(now, key);
                self.engine.after_frame(now);
                if self.engine.turn_share.is_gone(key) {
                    self.engine.handle_transport_closed(now, key);
                }
            }
        }
    }
}
