//! How much one turn of a shard may deliver, so that one publisher with many subscribers does not keep everybody
//! waiting.
//!
//! A message to ten thousand subscribers costs as much as ten thousand messages. Once so many sessions have been
//! reached in one turn, whoever publishes waits with the next message until the shard's timers have their turn;
//! acknowledgements, pings and subscriptions go on, and so does everybody else.
//!
//! What messages to many have reached counts by itself, until the line of connections that they have left to be written
//! has come to its end: those who make it long wait for that, and nobody else does.

use crate::connection::to_write::{ToWrite, WIDE_RECEIVERS};
use crate::desk::Desk;
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};
use crate::publish::fan_out::{FAN_OUT_STEP, FanOuts};
use crate::subscribe::steps::{FILTER_WORK_IN_ANY_CASE, FILTER_WORK_PER_TURN};
use std::collections::{BTreeSet, VecDeque};

/// Deliveries after which publishers wait: of messages to few between two turns of the timers, of messages to many
/// until all of their receivers were written. One message goes to all of its subscribers in any case.
const DELIVERIES_MAX: usize = 4096;

/// Which share of a turn was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// That of messages to few subscribers.
    Narrow,
    /// That of messages to many.
    Wide,
}

/// What was delivered in the present turn, and who waits for the next.
#[derive(Debug, Default)]
pub(crate) struct TurnShare {
    /// The clock's time of the turn: when it has moved on, so has the turn.
    at: Millis,
    narrow: usize,
    wide: usize,
    /// How many had been written from the line when the first of those came.
    wide_from: u64,
    /// When so many have been written from the line, so have all receivers of what counts as `wide`.
    wide_until: u64,
    pub(crate) waiting: VecDeque<ConnectionKey>,
    /// Work of filters in this turn.
    filters: usize,
    /// Work of the last connection's filters among them.
    own_filters: usize,
    /// That connection.
    filters_of: Option<ConnectionKey>,
    /// Connections with a packet whose next step waits for the next turn.
    packets: VecDeque<ConnectionKey>,
    /// Who waits for the end of the line, too.
    pub(crate) waiting_wide: VecDeque<ConnectionKey>,
    /// Of those who wait, whose transport is gone: what they have sent is worked off in their turns, and then they end.
    gone: BTreeSet<ConnectionKey>,
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

    /// How many packets wait for their next step.
    pub(crate) fn packets_waiting(&self) -> usize {
        self.packets.len()
    }

    /// The next connection whose packet goes on.
    pub(crate) fn next_packet(&mut self) -> Option<ConnectionKey> {
        self.packets.pop_front()
    }

    /// Whether a connection is to end now, since its transport is gone and all that it has sent is worked off.
    pub(crate) fn is_gone(&mut self, key: ConnectionKey) -> bool {
        !self.holds(key) && self.gone.remove(&key)
    }

    /// Whether a connection whose transport is gone ends only when what it has sent is worked off. At once that could
    /// be a parked flood.
    pub(crate) fn ends_later(&mut self, key: ConnectionKey) -> bool {
        let later = self.holds(key);
        if later {
            self.gone.insert(key);
        }
        later
    }

    /// Counts deliveries of one message; says which share they were too many for, if any.
    #[inline]
    pub(crate) fn charge(&mut self, now: Now, deliveries: usize, desk: &Desk) -> Option<Share> {
        let to_write = &desk.to_write;
        self.look_at(now, to_write);
        if deliveries > WIDE_RECEIVERS {
            self.wide += deliveries;
            if self.has_caught_up(to_write) {
                self.wide_from = to_write.left_line();
            }
            self.wide_until = to_write.left_line() + to_write.in_line() as u64;
            (self.wide > desk.wide_share(deliveries)).then_some(Share::Wide)
        } else {
            self.narrow += deliveries;
            (self.narrow > DELIVERIES_MAX).then_some(Share::Narrow)
        }
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

impl Desk {
    /// Deliveries of messages to many after which their publishers wait. Where many receivers take no output, what
    /// cannot be sent is queued or dropped instead, which costs more, and gains nothing from being done for several
    /// messages at once.
    #[inline]
    pub(crate) fn wide_share(&self, receivers: usize) -> usize {
        if self.blocked_connections * 4 >= receivers as u64 { FAN_OUT_STEP } else { DELIVERIES_MAX }
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
