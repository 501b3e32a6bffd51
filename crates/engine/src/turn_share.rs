//! How much one turn of a shard may deliver, so that one publisher with many subscribers does not keep everybody waiting.
//!
//! A message to ten thousand subscribers costs as much as ten thousand messages. Once so many sessions have been reached
//! in one turn, whoever publishes waits with the next message until the shard's timers have their turn; acknowledgements,
//! pings and subscriptions go on, and so does everybody else.

use std::collections::{BTreeSet, VecDeque};

use crate::connection::Connection;
use crate::engine::Engine;
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};

/// Deliveries between two turns of the timers, after which publishers wait. One message goes to all of its subscribers in
/// any case.
const DELIVERIES_MAX: usize = 4096;

/// What was delivered in the present turn, and who waits for the next.
#[derive(Debug, Default)]
pub(crate) struct TurnShare {
    /// The clock's time of the turn: when it has moved on, so has the turn.
    at: Millis,
    deliveries: usize,
    waiting: VecDeque<ConnectionKey>,
    /// Of those who wait, whose transport is gone: what they have sent is worked off in their turns, and then they end.
    gone: BTreeSet<ConnectionKey>,
}

impl TurnShare {
    /// Whether somebody waits for the next turn.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether this publisher waits for the next turn.
    pub(crate) fn holds(&self, key: ConnectionKey) -> bool {
        self.waiting.contains(&key)
    }

    /// Whether a connection whose transport is gone ends only when what it has sent is worked off. At once that could be
    /// a parked flood.
    pub(crate) fn ends_later(&mut self, key: ConnectionKey) -> bool {
        let later = self.holds(key);
        if later {
            self.gone.insert(key);
        }
        later
    }

    /// Counts deliveries; says whether they were too many for the turn.
    #[inline]
    pub(crate) fn charge(&mut self, now: Now, deliveries: usize) -> bool {
        if self.at != now.monotonic {
            self.at = now.monotonic;
            self.deliveries = 0;
        }
        self.deliveries += deliveries;
        self.deliveries > DELIVERIES_MAX
    }
}

impl Engine {
    /// The publisher of messages that took more than its share waits with the next one.
    #[cold]
    pub(crate) fn wait_for_next_turn(&mut self, now: Now, key: ConnectionKey) {
        let parked = self.desk.connections.get(key).is_some_and(Connection::is_parked);
        if parked || self.turn_share.holds(key) {
            return;
        }
        self.park(now, key);
        if self.desk.connections.get(key).is_some_and(Connection::is_parked) {
            self.turn_share.waiting.push_back(key);
        }
    }

    /// Begins a turn: lets those go on who waited for it, as long as it has room, each after the other.
    pub(crate) fn begin_turn(&mut self, now: Now) {
        self.turn_share.deliveries = 0;
        for _ in 0..self.turn_share.waiting.len() {
            if self.turn_share.charge(now, 0) {
                return;
            }
            let Some(key) = self.turn_share.waiting.pop_front() else { return };
            self.unpark(now, key);
            self.after_frame(now);
            if !self.turn_share.holds(key) && self.turn_share.gone.remove(&key) {
                self.handle_transport_closed(now, key);
            }
        }
    }
}
