//! A queue whose messages are not all alike: they have priorities, expire, give way to newer ones of their topic, or
//! some need the client's window and others do not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tidegate_mqtt::QoS;

use crate::message::PRIORITY_MAX;
use crate::now::Millis;
use crate::session::Delivery;
use crate::session::queue::Turns;
use crate::session::queue::lane::Lane;

/// Messages of one priority that need a window, or of one that do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaneKey {
    /// 0 for the highest priority.
    rank: u8,
    needs_window: bool,
}

impl LaneKey {
    fn of(delivery: &Delivery) -> Self {
        let rank = PRIORITY_MAX - delivery.message.priority.min(PRIORITY_MAX);
        Self { rank, needs_window: delivery.qos != QoS::AtMostOnce }
    }
}

/// The position of a delivery: its lane, and its number there.
type Stand = (LaneKey, u64);

/// Entries of the expiry index that are kept whatever the queue holds.
const EXPIRIES_MIN: usize = 32;

/// The queued messages by priority, by topic where only the newest counts, and by expiry.
#[derive(Debug, Default)]
pub(crate) struct SortedQueue {
    lanes: BTreeMap<LaneKey, Lane>,
    by_topic: BTreeMap<Box<str>, Stand>,
    /// Times of expiry, the earliest first. One of a delivery that is gone is dropped when it comes to the front.
    expiries: BinaryHeap<Reverse<(Millis, Stand)>>,
    len: usize,
    /// Arrivals so far, which number them.
    arrivals: u64,
    pub(super) turns: Turns,
}

impl SortedQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// True if all messages that need the window are served in the order of their arrival.
    pub(super) fn is_in_order(&self) -> bool {
        self.by_topic.is_empty() && self.lanes.keys().all(|lane| lane.rank == PRIORITY_MAX)
    }

    /// Whether any needs no window.
    pub(super) fn has_windowless(&self) -> bool {
        self.lanes.keys().any(|lane| !lane.needs_window)
    }

    /// Whether some messages are replaced by newer ones of their topic.
    pub(super) fn has_latest(&self) -> bool {
        !self.by_topic.is_empty()
    }

    pub(super) fn replaceable(&self, delivery: &Delivery) -> Option<&Delivery> {
        let stand = self.by_topic.get(delivery.message.topic()).filter(|_| delivery.latest)?;
        self.get(*stand)
    }

    /// Adds a delivery. One that replaces an older one takes its place, so that a topic that changes often waits no
    /// longer than others; with another priority it goes to the end of that priority.
    pub(super) fn push(&mut self, delivery: Delivery) -> Option<Delivery> {
        let known = self.by_topic.get(delivery.message.topic()).copied().filter(|_| delivery.latest);
        let replaced = known.and_then(|stand| self.take(stand));
        match known.filter(|(lane, _)| lane.rank == LaneKey::of(&delivery).rank) {
            Some((_, number)) => self.put(number, delivery),
            None => self.append(delivery),
        }
        replaced
    }

    /// Adds a delivery behind all others of its priority, whatever its topic.
    pub(super) fn append(&mut self, delivery: Delivery) {
        let number = self.arrivals;
        self.arrivals += 1;
        self.put(number, delivery);
    }

    fn put(&mut self, number: u64, delivery: Delivery) {
        let stand = (LaneKey::of(&delivery), number);
        if delivery.latest {
            self.by_topic.insert(delivery.message.topic().into(), stand);
        }
        let expires_at = delivery.message.expires_at;
        self.lanes.entry(stand.0).or_default().insert(number, delivery);
        self.len += 1;
        if expires_at != Millis::NEVER {
            self.expiries.push(Reverse((expires_at, stand)));
            if self.expiries.len() > 2 * self.len + EXPIRIES_MIN {
                self.index_expiries();
            }
        }
    }

    /// Builds the expiry index again.
    fn index_expiries(&mut self) {
        let all = self.lanes.iter().flat_map(|(lane, deliveries)| {
            deliveries.iter().map(|(number, delivery)| (delivery.message.expires_at, (*lane, number)))
        });
        self.expiries = all.filter(|(expires_at, _)| *expires_at != Millis::NEVER).map(Reverse).collect();
    }

    /// When the first expires; [`Millis::NEVER`] if none does.
    pub(super) fn next_expiry(&self) -> Millis {
        self.expiries.peek().map_or(Millis::NEVER, |Reverse((expires_at, _))| *expires_at)
    }

    /// Takes the message that expires first, if it has expired.
    pub(super) fn pop_expired(&mut self, now: Millis) -> Option<Delivery> {
        let Reverse((expires_at, stand)) = *self.expiries.peek()?;
        if expires_at > now { None } else { self.take(stand) }
    }

    /// The next entry, and whether it is of a lower priority.
    fn next(&self, share: u16, window: bool) -> Option<(Stand, bool)> {
        let mut served = self.fronts(window);
        let (first_lane, number) = served.next()?;
        let mut highest = (first_lane, number);
        let mut lower: Option<Stand> = None;
        for (lane, number) in served {
            if lane.rank == highest.0.rank {
                // At one priority that which came first, whether it needs a window or not.
                highest = if number < highest.1 { (lane, number) } else { highest };
            } else if lower.is_none_or(|oldest| number < oldest.1) {
                // The oldest of the lower ones, so that none of them starves either.
                lower = Some((lane, number));
            }
        }
        let lower = lower.filter(|_| self.turns.is_lower(share));
        Some((lower.unwrap_or(highest), lower.is_some()))
    }

    /// The first of each lane, or only of lanes that need no window.
    fn fronts(&self, window: bool) -> impl Iterator<Item = Stand> + '_ {
        let lanes = self.lanes.iter().filter(move |(lane, _)| window || !lane.needs_window);
        lanes.filter_map(|(lane, deliveries)| Some((*lane, deliveries.front()?.0)))
    }

    pub(super) fn front(&self, share: u16, window: bool) -> Option<&Delivery> {
        self.get(self.next(share, window)?.0)
    }

    pub(super) fn pop(&mut self, share: u16, window: bool) -> Option<Delivery> {
        let (stand, lower) = self.next(share, window)?;
        if lower || self.lanes.last_key_value().is_some_and(|(last, _)| last.rank > stand.0.rank) {
            self.turns.count(lower);
        }
        self.take(stand)
    }

    pub(super) fn pop_least(&mut self, priority: u8) -> Option<Delivery> {
        let least = self.lanes.last_key_value()?.0.rank;
        if PRIORITY_MAX - least > priority {
            return None;
        }
        let of_least = self.fronts(true).filter(|(lane, _)| lane.rank == least);
        let stand = of_least.min_by_key(|(_, number)| *number)?;
        self.take(stand)
    }

    /// See [`super::SessionQueue::advance_last`].
    pub(super) fn advance_last(
        &mut self,
        limit: usize,
        is_it: impl Fn(&Delivery) -> bool,
        comes_after: impl Fn(&Delivery) -> bool,
    ) {
        let Some(last) = self.arrivals.checked_sub(1).filter(|_| self.is_in_order()) else { return };
        let lane = self.lanes.values_mut().find(|lane| lane.get(last).is_some_and(&is_it));
        if lane.is_some_and(|lane| lane.advance_last(limit, comes_after)) {
            self.index_expiries();
        }
    }

    /// Gives memory back after a peak.
    pub(super) fn shrink(&mut self) {
        self.lanes.values_mut().for_each(Lane::shrink);
        self.expiries.shrink_to_fit();
    }

    fn get(&self, (lane, number): Stand) -> Option<&Delivery> {
        self.lanes.get(&lane)?.get(number)
    }

    fn take(&mut self, stand: Stand) -> Option<Delivery> {
        let lane = self.lanes.get_mut(&stand.0)?;
        let delivery = lane.take(stand.1)?;
        if lane.is_empty() {
            self.lanes.remove(&stand.0);
        }
        self.len -= 1;
        if delivery.latest && self.by_topic.get(delivery.message.topic()) == Some(&stand) {
            self.by_topic.remove(delivery.message.topic());
        }
        while let Some(Reverse((expires_at, stand))) = self.expiries.peek() {
            if self.get(*stand).is_some_and(|there| there.message.expires_at == *expires_at) {
                break;
            }
            self.expiries.pop();
        }
        Some(delivery)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        let mut all: Vec<_> = self.lanes.values().flat_map(Lane::iter).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, delivery)| delivery)
    }

    pub(super) fn into_arrivals(self) -> impl Iterator<Item = Delivery> {
        let mut all: Vec<_> = self.lanes.into_values().flat_map(Lane::into_deliveries).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, delivery)| delivery)
    }
}

impl FromIterator<Delivery> for SortedQueue {
    /// Each delivery stays one, whatever its topic.
    fn from_iter<I: IntoIterator<Item = Delivery>>(deliveries: I) -> Self {
        let mut queue = Self::default();
        for delivery in deliveries {
            queue.append(delivery);
        }
        queue
    }
}
