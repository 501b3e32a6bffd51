//! The lag of the event loop is noted, and publishers are slowed.

use crate::engine::facets::{ControlCalls, TimerCalls};
use crate::limits::loop_lag::{LoopLag, WINDOW_MS};
use crate::now::{Millis, Now};
use crate::timers::Timer;

impl ControlCalls<'_> {
    /// Notes that this shard's turns take too long, until the given time unless the call is repeated; `long` says
    /// whether the last one did. The publishers that cause most work wait meanwhile.
    pub fn note_loop_lag(&mut self, now: Now, until: Millis, long: bool) {
        let lag = &mut self.engine.state.loop_lag;
        lag.until = lag.until.max(until);
        lag.long |= long;
        if !lag.has_timer() && lag.is_on(now) {
            lag.since = now.monotonic;
            lag.window_ends = now.monotonic.plus(WINDOW_MS);
            self.engine.state.timers.set(lag.window_ends, Timer::LoopLag);
        }
    }
}

impl TimerCalls<'_> {
    /// Ends a second in which turns took too long, or had before. Held publishers continue.
    pub(crate) fn handle_loop_lag_timer(&mut self, now: Now) {
        let lag = &mut self.engine.state.loop_lag;
        self.engine.state.to_unpark.extend(std::mem::take(&mut lag.waiting));
        if lag.is_on(now) {
            lag.begin_window(now.monotonic, self.engine.state.settings.limits.lag_exempt_bytes);
            self.engine.state.timers.set(lag.window_ends, Timer::LoopLag);
        } else {
            *lag = LoopLag::default();
        }
    }
}
