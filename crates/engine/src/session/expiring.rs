//! Messages that expire while they wait: they leave their queue at the next whole second, or sooner when a message
//! needs their room.

use crate::ids::SessionKey;
use crate::now::Millis;
use crate::session::Flow;
use crate::session::table::Sessions;
use crate::timers::Schedule;
use crate::timers::Timer;

/// Milliseconds between the times at which timers look for expired messages.
const TICK_MS: u64 = 1000;

/// The first look after a deadline. All queues are looked at together, so that a shard wakes once a second for them at
/// most.
pub(super) fn tick_after(deadline: Millis) -> Millis {
    Millis(deadline.0.checked_next_multiple_of(TICK_MS).unwrap_or(u64::MAX))
}

impl Sessions {
    /// A message came into a session's queue: it leaves when it expires.
    #[inline]
    pub(crate) fn note_expiry(&mut self, timers: &mut Schedule<Timer>, to: SessionKey, expires_at: Millis) {
        if expires_at != Millis::NEVER {
            self.watch_expiry(timers, to);
        }
    }

    /// Sets the timer of a queue to its next expiry, if that is earlier than its present time.
    #[cold]
    pub(crate) fn watch_expiry(&mut self, timers: &mut Schedule<Timer>, to: SessionKey) {
        let Some(flow) = self.get_mut(to.0).and_then(|session| session.flow.as_mut()) else { return };
        let tail = flow.tail.as_ref().map_or(Millis::NEVER, |tail| tail.runs.next_expiry());
        let at = tick_after(flow.queue.next_expiry().min(tail));
        if at < flow.expiry_timer.unwrap_or(Millis::NEVER) {
            if let Some(before) = flow.expiry_timer.replace(at) {
                timers.cancel(before, Timer::Expiry(to));
            }
            timers.set(at, Timer::Expiry(to));
        }
    }
}

impl Flow {
    /// Cancels the expiry timer of a queue that has become empty, in memory and in the store. `to` is the session of the
    /// queue.
    #[inline]
    pub(crate) fn end_waiting(&mut self, timers: &mut Schedule<Timer>, to: SessionKey) {
        if !self.queue.is_empty() || self.tail.is_some() {
            return;
        }
        self.keeps_qos0 &= self.to_resend > 0;
        if let Some(at) = self.expiry_timer.take() {
            timers.cancel(at, Timer::Expiry(to));
        }
    }
}
