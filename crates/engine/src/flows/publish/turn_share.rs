//! A publisher waits when the share of its turn is used.

use crate::connection::Connection;
use crate::desk::Timer;
use crate::flows::connection::parking::Parking;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::publish::turn_share::Share;

impl Parking<'_> {
    /// The publisher of messages that took more than its share waits with the next one.
    #[cold]
    pub(crate) fn wait_for_next_turn(&mut self, now: Now, key: ConnectionKey, share: Share) {
        let parked = self.desk.connections.get(key).is_some_and(Connection::is_parked);
        if parked || self.turn_share.holds(key) {
            return;
        }
        self.park(now, key);
        if self.desk.connections.get(key).is_some_and(Connection::is_parked) {
            match share {
                Share::Narrow => self.turn_share.waiting.push_back(key),
                Share::Wide => self.turn_share.waiting_wide.push_back(key),
            }
        }
    }

    /// True while connections that messages to many have put in line are being written.
    pub(crate) fn is_line_under_way(&self) -> bool {
        self.turn_share.is_under_way(&self.desk.to_write)
    }

    /// Whether a publisher waits for its turn and for nothing else. That ends by itself, however long it takes, and the
    /// timer of those who wait is set anew.
    pub(crate) fn waits_for_turn_alone(&mut self, now: Now, key: ConnectionKey) -> bool {
        let until = now.monotonic.plus(self.settings.limits.block_timeout_ms);
        let connection = self.desk.connections.get_mut(key);
        let parked = connection.and_then(|connection| connection.extra.as_mut()?.parked.as_mut());
        let Some(parked) = parked.filter(|parked| parked.waits == 1) else { return false };
        if !self.turn_share.holds(key) {
            return false;
        }
        parked.until = until;
        self.desk.timers.set(until, Timer::Parked(key));
        true
    }
}
