//! How much one turn of a shard may deliver, so that one publisher with many subscribers does not keep everybody
//! waiting.
//!
//! A message to ten thousand subscribers costs as much as ten thousand messages. Once this number of sessions have been
//! reached in one turn, a publisher waits with its next message until the shard's timers have had their turn.
//! Acknowledgements, pings, subscriptions and other clients continue.
//!
//! Deliveries of messages to many are counted separately, until the line of connections that they left to be written is
//! empty. Only publishers to many wait for that.

use crate::ids::ConnectionKey;
use crate::now::Millis;
use crate::publish::fan_out::FAN_OUT_STEP;
use std::collections::{BTreeSet, VecDeque};

/// Deliveries after which publishers wait: of messages to few between two turns of the timers, of messages to many
/// until all of their receivers were written. One message goes to all of its subscribers in any case.
pub(crate) const DELIVERIES_MAX: usize = 4096;

/// Nodes of filters that are visited in the time of one delivery, while the receivers of a topic are searched.
pub(crate) const VISITS_PER_DELIVERY: usize = 16;

/// The share of a turn that was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// That of messages to few subscribers.
    Narrow,
    /// That of messages to many.
    Wide,
}

/// The deliveries of the present turn, and the publishers that wait for the next.
#[derive(Debug, Default)]
pub(crate) struct TurnShare {
    /// The clock's time of the turn: when it has moved on, so has the turn.
    pub(crate) at: Millis,
    pub(crate) narrow: usize,
    pub(crate) wide: usize,
    /// Number of connections written from the line when the first of those came.
    pub(crate) wide_from: u64,
    /// The count of written connections at which all receivers counted in `wide` have been written.
    pub(crate) wide_until: u64,
    pub(crate) waiting: VecDeque<ConnectionKey>,
    /// Work of filters in this turn.
    pub(crate) filters: usize,
    /// Work of the last connection's filters among them.
    pub(crate) own_filters: usize,
    /// That connection.
    pub(crate) filters_of: Option<ConnectionKey>,
    /// Connections with a packet whose next step waits for the next turn.
    pub(crate) packets: VecDeque<ConnectionKey>,
    /// Connections that wait for the end of the line, too.
    pub(crate) waiting_wide: VecDeque<ConnectionKey>,
    /// Waiting connections whose transport is gone: their input is processed in their turns, then they end.
    pub(crate) gone: BTreeSet<ConnectionKey>,
}

/// Deliveries of messages to many after which their publishers wait. Where many receivers take no output, what cannot be
/// sent is queued or dropped instead, which costs more, and gains nothing from being done for several messages at once.
#[inline]
pub(crate) fn wide_share(blocked_connections: u64, receivers: usize) -> usize {
    if blocked_connections * 4 >= receivers as u64 { FAN_OUT_STEP } else { DELIVERIES_MAX }
}
