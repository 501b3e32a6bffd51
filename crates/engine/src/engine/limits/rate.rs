//! The timer of publishers that wait for their rate.

use crate::engine::facets::TimerCalls;
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};

impl TimerCalls<'_> {
    /// A client may publish again.
    pub(crate) fn handle_rate_timer(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        if let Some(rate) = connection.extra.as_mut().and_then(|extra| extra.rate.as_mut()) {
            rate.waits_until = Millis::NEVER;
            self.engine.waiting().unpark(now, key);
        }
    }
}
