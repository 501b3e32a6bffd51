//! A queue in which some messages give way to newer ones of their topic.

use std::collections::BTreeMap;

use crate::session::Delivery;
use crate::session::queue::{PRIORITY_MAX, Turns};

/// Where a delivery stands: the higher priority first, then the earlier arrival.
type Stand = (u8, u64);

/// What waits, and by topic those of which only the newest counts.
#[derive(Debug)]
pub(crate) struct LatestQueue {
    waiting: BTreeMap<Stand, Delivery>,
    by_topic: BTreeMap<Box<str>, Stand>,
    /// Arrivals so far, which number them.
    arrivals: u64,
    pub(super) turns: Turns,
}

impl LatestQueue {
    fn new() -> Self {
        Self { waiting: BTreeMap::new(), by_topic: BTreeMap::new(), arrivals: 0, turns: Turns::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn replaceable(&self, delivery: &Delivery) -> Option<&Delivery> {
        let stand = self.by_topic.get(delivery.message.topic()).filter(|_| delivery.latest)?;
        self.waiting.get(stand)
    }

    /// Adds a delivery. One that replaces an older one takes its place, so that a topic that changes often waits no
    /// longer than others; with another priority it goes behind those of that.
    pub(super) fn push(&mut self, delivery: Delivery) -> Option<Delivery> {
        let rank = rank(&delivery);
        let known = self.by_topic.get(delivery.message.topic()).copied().filter(|_| delivery.latest);
        if let Some(stand) = known.filter(|stand| stand.0 == rank) {
            return self.waiting.insert(stand, delivery);
        }
        let replaced = known.and_then(|stand| self.waiting.remove(&stand));
        self.append(rank, delivery);
        replaced
    }

    fn append(&mut self, rank: u8, delivery: Delivery) {
        let stand = (rank, self.arrivals);
        self.arrivals += 1;
        if delivery.latest {
            self.by_topic.insert(delivery.message.topic().into(), stand);
        }
        self.waiting.insert(stand, delivery);
    }

    /// Whose turn it is, and whether it is a lower priority's.
    fn next(&self, share: u16) -> Option<(Stand, bool)> {
        let highest = *self.waiting.first_key_value()?.0;
        if !self.turns.is_lower(share) || !self.has_lower(highest) {
            return Some((highest, false));
        }
        let fronts = (highest.0 + 1..=PRIORITY_MAX).filter_map(|rank| {
            let (stand, _) = self.waiting.range((rank, 0)..=(rank, u64::MAX)).next()?;
            Some((stand.1, *stand))
        });
        fronts.min().map(|(_, stand)| (stand, true))
    }

    fn has_lower(&self, highest: Stand) -> bool {
        self.waiting.last_key_value().is_some_and(|(last, _)| last.0 > highest.0)
    }

    pub(super) fn front(&self, share: u16) -> Option<&Delivery> {
        self.waiting.get(&self.next(share)?.0)
    }

    pub(super) fn pop(&mut self, share: u16) -> Option<Delivery> {
        let (stand, lower) = self.next(share)?;
        if lower || self.has_lower(stand) {
            self.turns.count(lower);
        }
        self.take(stand)
    }

    pub(super) fn pop_least(&mut self, priority: u8) -> Option<Delivery> {
        let least = self.waiting.last_key_value()?.0.0;
        if PRIORITY_MAX - least > priority {
            return None;
        }
        let (stand, _) = self.waiting.range((least, 0)..).next()?;
        self.take(*stand)
    }

    fn take(&mut self, stand: Stand) -> Option<Delivery> {
        let delivery = self.waiting.remove(&stand)?;
        if delivery.latest && self.by_topic.get(delivery.message.topic()) == Some(&stand) {
            self.by_topic.remove(delivery.message.topic());
        }
        Some(delivery)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        let mut all: Vec<_> = self.waiting.iter().collect();
        all.sort_by_key(|((_, number), _)| *number);
        all.into_iter().map(|(_, delivery)| delivery)
    }

    pub(super) fn into_arrivals(self) -> impl Iterator<Item = Delivery> {
        let mut all: Vec<_> = self.waiting.into_iter().collect();
        all.sort_by_key(|((_, number), _)| *number);
        all.into_iter().map(|(_, delivery)| delivery)
    }
}

/// The place of a priority in the order of service: 0 for the highest.
fn rank(delivery: &Delivery) -> u8 {
    PRIORITY_MAX - delivery.message.priority.min(PRIORITY_MAX)
}

impl FromIterator<Delivery> for LatestQueue {
    /// Each delivery stays one, whatever its topic.
    fn from_iter<I: IntoIterator<Item = Delivery>>(deliveries: I) -> Self {
        let mut queue = Self::new();
        for delivery in deliveries {
            queue.append(rank(&delivery), delivery);
        }
        queue
    }
}
