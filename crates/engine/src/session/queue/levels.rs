//! A queue with priorities: the highest level first, in the order of arrival within one, and a share for the lower
//! ones.

use std::collections::VecDeque;

use crate::session::Delivery;
use crate::session::queue::{LEVELS, PRIORITY_MAX, Turns};

/// What waits, by priority.
#[derive(Debug)]
pub(crate) struct LevelQueue {
    levels: [VecDeque<(u64, Delivery)>; LEVELS],
    /// A bit for each level that is not empty.
    waiting: u16,
    len: usize,
    /// Arrivals so far, which number them.
    arrivals: u64,
    pub(super) turns: Turns,
}

impl LevelQueue {
    fn new() -> Self {
        let levels = std::array::from_fn(|_| VecDeque::new());
        Self { levels, waiting: 0, len: 0, arrivals: 0, turns: Turns::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, delivery: Delivery) {
        let level = usize::from(delivery.message.priority.min(PRIORITY_MAX));
        let Some(queue) = self.levels.get_mut(level) else { return };
        queue.push_back((self.arrivals, delivery));
        self.arrivals += 1;
        self.waiting |= 1 << level;
        self.len += 1;
    }

    /// The level whose turn it is, and whether it is a lower one's.
    fn next_level(&self, share: u16) -> Option<(usize, bool)> {
        let highest = self.waiting.checked_ilog2()? as usize;
        let lower = self.waiting & !(1 << highest);
        if lower == 0 || !self.turns.is_lower(share) {
            return Some((highest, false));
        }
        // The oldest of them, so that none of them starves either.
        let fronts = (0..highest).filter_map(|level| Some((self.levels.get(level)?.front()?.0, level)));
        fronts.min().map(|(_, level)| (level, true))
    }

    pub(super) fn front(&self, share: u16) -> Option<&Delivery> {
        let (level, _) = self.next_level(share)?;
        self.levels.get(level)?.front().map(|(_, delivery)| delivery)
    }

    pub(super) fn pop(&mut self, share: u16) -> Option<Delivery> {
        let (level, lower) = self.next_level(share)?;
        if self.waiting.count_ones() > 1 {
            self.turns.count(lower);
        }
        self.take(level)
    }

    pub(super) fn pop_least(&mut self, priority: u8) -> Option<Delivery> {
        let level = self.waiting.trailing_zeros() as usize;
        if self.waiting == 0 || level > usize::from(priority) {
            return None;
        }
        self.take(level)
    }

    fn take(&mut self, level: usize) -> Option<Delivery> {
        let queue = self.levels.get_mut(level)?;
        let (_, delivery) = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting &= !(1 << level);
        }
        self.len -= 1;
        Some(delivery)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        let mut all: Vec<_> = self.levels.iter().flatten().collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, delivery)| delivery)
    }

    pub(super) fn into_arrivals(self) -> impl Iterator<Item = Delivery> {
        let mut all: Vec<_> = self.levels.into_iter().flatten().collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, delivery)| delivery)
    }
}

impl FromIterator<Delivery> for LevelQueue {
    fn from_iter<I: IntoIterator<Item = Delivery>>(deliveries: I) -> Self {
        let mut queue = Self::new();
        for delivery in deliveries {
            queue.push(delivery);
        }
        queue
    }
}
