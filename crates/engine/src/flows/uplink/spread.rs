//! A broker's queue is dealt again when another one begins to serve.

use crate::flows::contexts::Dealing;
use crate::ids::UplinkKey;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::settle::{Whereto, take_front};

/// Messages that are dealt again in one turn.
const PIECE_MESSAGES: usize = 256;

/// Time between two pieces, milliseconds, in which other work has its turn.
const PIECE_PAUSE_MS: u64 = 1;

impl Dealing<'_> {
    /// Deals the next piece of a broker's queue again, if it is time.
    pub(crate) fn spread_piece(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        if uplink.spread.at > now.monotonic {
            return;
        }
        let (session, most) = (uplink.session, uplink.spread.left.min(PIECE_MESSAGES));
        let share = self.state.settings.queue.lower_priority_share;
        let flow = self.state.sessions.get_mut(session.0).and_then(|session| session.flow.as_mut());
        let piece = flow.map_or_else(Vec::new, |flow| take_front(flow, most, share));
        uplink.spread.left -= most;
        // A queue that has become empty has been sent in the meantime.
        let done = uplink.spread.left == 0 || piece.len() < most;
        uplink.spread.at = if done { Millis::NEVER } else { now.monotonic.plus(PIECE_PAUSE_MS) };
        self.deal_queue(now, key, piece, Whereto::Anywhere);
        self.uplinks.brokers.open_window(now, self.state, self.layouts, key);
    }
}
