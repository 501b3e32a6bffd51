//! Publishers have waited for a pipeline that is slower than they are.

use crate::engine::facets::TimerCalls;
use crate::now::{Millis, Now};
use crate::timers::Timer;

impl TimerCalls<'_> {
    /// Publishers that have waited for too long continue.
    pub(crate) fn handle_pace_timer(&mut self, now: Now) {
        let state = &mut self.engine.state;
        let mut next: Option<Millis> = None;
        state.blockers.retain(|key| {
            let Some(flow) = state.sessions.get_mut(*key).and_then(|session| session.flow.as_mut()) else {
                return false;
            };
            match flow.pace.latest() {
                Some(latest) if latest <= now.monotonic => {
                    flow.pace.give_up(now.monotonic);
                    flow.full_at = None;
                    state.to_unpark.append(&mut flow.blocking);
                }
                Some(latest) => next = next.into_iter().chain([latest]).min(),
                None => {}
            }
            !flow.blocking.is_empty()
        });
        state.pace_timer = next;
        if let Some(at) = next {
            state.timers.set(at, Timer::Pace);
        }
    }
}
