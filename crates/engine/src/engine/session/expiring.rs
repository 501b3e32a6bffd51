//! The timer of messages that expire in queues.

use crate::engine::facets::TimerCalls;
use crate::ids::SessionKey;
use crate::now::Now;
use crate::timers::Timer;

/// Expired messages of one queue that are worked off in one turn; the others are due in the next.
const EXPIRED_PER_TURN: u64 = 1024;

impl TimerCalls<'_> {
    /// A message in a session's queue may have expired.
    pub(crate) fn handle_expiry_timer(&mut self, now: Now, to: SessionKey) {
        let flow = self.engine.state.sessions.get_mut(to.0).and_then(|session| session.flow.as_mut());
        // The timer of a session that is gone may name another one.
        let Some(flow) = flow.filter(|flow| flow.expiry_timer.is_some_and(|at| at <= now.monotonic)) else { return };
        flow.expiry_timer = None;
        let (mut taken, mut done) = (0, false);
        while !done && taken < EXPIRED_PER_TURN {
            let more = self.engine.state.expire_next(now.monotonic, to);
            (taken, done) = (taken + more, more == 0);
        }
        self.engine.state.after_refill(to);
        if done {
            self.engine.state.sessions.watch_expiry(&mut self.engine.state.timers, to);
        } else if let Some(flow) = self.engine.state.sessions.get_mut(to.0).and_then(|session| session.flow.as_mut()) {
            let next = now.monotonic.plus(1);
            flow.expiry_timer = Some(next);
            self.engine.state.timers.set(next, Timer::Expiry(to));
        }
        let session = self.engine.state.sessions.get_mut(to.0);
        if let Some(session) = session.filter(|session| session.connection.is_none()) {
            session.settle();
        }
    }
}
