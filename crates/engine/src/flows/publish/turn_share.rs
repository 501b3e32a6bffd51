//! A publisher waits when the share of its turn is used.

use crate::connection::Connection;
use crate::connection::to_write::{ToWrite, WIDE_RECEIVERS};
use crate::flows::contexts::Parking;
use crate::ids::ConnectionKey;
use crate::now::Now;
use crate::publish::fan_out::FanOuts;
use crate::publish::turn_share::wide_share;
use crate::publish::turn_share::{DELIVERIES_MAX, Share, TurnShare, VISITS_PER_DELIVERY};
use crate::state::ShardState;
use crate::subscribe::steps::{FILTER_WORK_IN_ANY_CASE, FILTER_WORK_PER_TURN};
use crate::timers::Timer;

impl Parking<'_> {
    /// The publisher of messages that took more than its share waits with the next one.
    #[cold]
    pub(crate) fn wait_for_next_turn(&mut self, now: Now, key: ConnectionKey, share: Share) {
        let parked = self.state.connections.get(key).is_some_and(Connection::is_parked);
        if parked || self.turn_share.holds(key) {
            return;
        }
        self.park(now, key);
        if self.state.connections.get(key).is_some_and(Connection::is_parked) {
            match share {
                Share::Narrow => self.turn_share.waiting.push_back(key),
                Share::Wide => self.turn_share.waiting_wide.push_back(key),
            }
        }
    }

    /// True while connections that messages to many have put in line are being written.
    pub(crate) fn is_line_under_way(&self) -> bool {
        self.turn_share.is_under_way(&self.state.to_write)
    }

    /// True if a publisher waits only for its turn. That wait always ends, so the timer of waiting publishers is set
    /// again.
    pub(crate) fn waits_for_turn_alone(&mut self, now: Now, key: ConnectionKey) -> bool {
        let until = now.monotonic.plus(self.state.settings.limits.block_timeout_ms);
        let connection = self.state.connections.get_mut(key);
        let parked = connection.and_then(|connection| connection.extra.as_mut()?.parked.as_mut());
        let Some(parked) = parked.filter(|parked| parked.waits == 1) else { return false };
        if !self.turn_share.holds(key) {
            return false;
        }
        parked.until = until;
        self.state.timers.set(until, Timer::Parked(key));
        true
    }
}

impl TurnShare {
    /// Whether all were written that messages to many have put in line.
    fn has_caught_up(&self, to_write: &ToWrite) -> bool {
        to_write.left_line() >= self.wide_until
    }

    /// Whether this publisher waits for the next turn or for the end of the line.
    pub(crate) fn holds(&self, key: ConnectionKey) -> bool {
        self.waiting.contains(&key) || self.waiting_wide.contains(&key) || self.packets.contains(&key)
    }

    /// Begins to count the work of a packet's filters.
    pub(crate) fn begin_packet(&mut self, now: Now, key: ConnectionKey, to_write: &ToWrite) {
        self.look_at(now, to_write);
        if self.filters_of != Some(key) {
            self.filters_of = Some(key);
            self.own_filters = 0;
        }
    }

    /// Counts the work of a filter.
    pub(crate) fn charge_filter(&mut self, work: usize) {
        self.filters += work;
        self.own_filters += work;
    }

    /// Whether the turn has room for the work of one more filter.
    pub(crate) fn has_filter_work(&self) -> bool {
        self.filters < FILTER_WORK_PER_TURN || self.own_filters < FILTER_WORK_IN_ANY_CASE
    }

    /// The next step of this connection's packet waits for the next turn.
    pub(crate) fn add_packet(&mut self, key: ConnectionKey) {
        self.packets.push_back(key);
    }

    /// Whether steps of packets wait.
    pub(crate) fn has_packets(&self) -> bool {
        !self.packets.is_empty()
    }

    /// Number of packets that wait for their next step.
    pub(crate) fn packets_waiting(&self) -> usize {
        self.packets.len()
    }

    /// The next connection whose packet continues.
    pub(crate) fn next_packet(&mut self) -> Option<ConnectionKey> {
        self.packets.pop_front()
    }

    /// Whether a connection is to end now, since its transport is gone and all that it has sent is worked off.
    pub(crate) fn is_gone(&mut self, key: ConnectionKey) -> bool {
        !self.holds(key) && self.gone.remove(&key)
    }

    /// True if a connection without a transport must end only when its input is processed. At once, this work could be
    /// a parked flood.
    pub(crate) fn ends_later(&mut self, key: ConnectionKey) -> bool {
        let later = self.holds(key);
        if later {
            self.gone.insert(key);
        }
        later
    }

    /// Counts deliveries of one message; says which share they were too many for, if any.
    #[inline]
    pub(crate) fn charge(&mut self, now: Now, deliveries: usize, state: &ShardState) -> Option<Share> {
        let to_write = &state.to_write;
        self.look_at(now, to_write);
        if deliveries > WIDE_RECEIVERS {
            self.wide += deliveries;
            if self.has_caught_up(to_write) {
                self.wide_from = to_write.left_line();
            }
            self.wide_until = to_write.left_line() + to_write.in_line() as u64;
            (self.wide > wide_share(state.blocked_connections, deliveries)).then_some(Share::Wide)
        } else {
            self.narrow += deliveries;
            (self.narrow > DELIVERIES_MAX).then_some(Share::Narrow)
        }
    }

    /// Counts the search for the receivers of a topic; says whether the share of the turn is used up.
    pub(crate) fn charge_matching(&mut self, now: Now, visited: usize, state: &ShardState) -> Option<Share> {
        self.look_at(now, &state.to_write);
        self.narrow += visited / VISITS_PER_DELIVERY;
        (self.narrow > DELIVERIES_MAX).then_some(Share::Narrow)
    }

    /// Begins a turn when the clock has moved on.
    #[inline]
    fn look_at(&mut self, now: Now, to_write: &ToWrite) {
        if self.at != now.monotonic {
            self.at = now.monotonic;
            self.begin(to_write);
        }
    }

    pub(crate) fn begin(&mut self, to_write: &ToWrite) {
        self.narrow = 0;
        self.filters = 0;
        self.filters_of = None;
        self.own_filters = 0;
        if self.has_caught_up(to_write) {
            self.wide = 0;
        }
    }

    /// Whether some were written that messages to many have put in line, and others are still to be.
    #[inline]
    pub(crate) fn is_under_way(&self, to_write: &ToWrite) -> bool {
        to_write.left_line() != self.wide_from && !self.has_caught_up(to_write)
    }

    /// The next who may go on, while there is room.
    pub(crate) fn next(&mut self, share: Share) -> Option<ConnectionKey> {
        match share {
            Share::Narrow if self.narrow <= DELIVERIES_MAX => self.waiting.pop_front(),
            Share::Wide if self.wide <= DELIVERIES_MAX => self.waiting_wide.pop_front(),
            Share::Narrow | Share::Wide => None,
        }
    }
}

impl TurnShare {
    /// True if publishers, packets of many filters or messages under way go on in the next turn.
    pub(crate) fn has_work(&self, fan_outs: &FanOuts, to_write: &ToWrite) -> bool {
        let wide = || !self.waiting_wide.is_empty() && fan_outs.is_empty();
        !self.waiting.is_empty()
            || self.has_packets()
            || fan_outs.can_go_on(to_write)
            || (wide() && self.has_caught_up(to_write))
    }
}
