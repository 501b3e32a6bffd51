//! What waits for a session, and which of it goes next.
//!
//! Nearly all queues are first-in-first-out. One that takes a message with a priority sorts what waits by level until
//! it runs empty, and one that takes a message of which only the newest of its topic counts finds those by their
//! topics.

mod latest;
mod levels;

use std::collections::VecDeque;

use crate::session::Delivery;
use crate::session::queue::latest::LatestQueue;
use crate::session::queue::levels::LevelQueue;

/// Highest priority of a message; 0 is the least and the ordinary one.
pub(crate) const PRIORITY_MAX: u8 = 9;

/// Levels of priority.
const LEVELS: usize = PRIORITY_MAX as usize + 1;

/// The messages that wait for one session. As large as a plain queue while it is one.
#[derive(Debug)]
pub(crate) enum SessionQueue {
    /// First in, first out.
    Plain(VecDeque<Delivery>),
    /// Higher priorities go first.
    Levels(Box<LevelQueue>),
    /// As with levels, and some messages give way to newer ones of their topic.
    Latest(Box<LatestQueue>),
}

impl Default for SessionQueue {
    fn default() -> Self {
        Self::Plain(VecDeque::new())
    }
}

/// How often a lower priority gets its turn while higher ones wait.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    /// Messages served since a lower level had its turn.
    since: u16,
}

impl Turns {
    /// Whether the next message is a lower one's, if of so many messages one has to be; 0 gives lower ones no share.
    fn is_lower(self, share: u16) -> bool {
        share != 0 && self.since >= share - 1
    }

    /// Notes that a message was served while lower ones waited.
    fn count(&mut self, lower: bool) {
        self.since = if lower { 0 } else { self.since.saturating_add(1) };
    }
}

impl SessionQueue {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(queue) => queue.len(),
            Self::Levels(queue) => queue.len(),
            Self::Latest(queue) => queue.len(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a delivery behind all others of its priority. Returns the older one of its topic that it replaces.
    #[inline]
    pub(crate) fn push_back(&mut self, delivery: Delivery) -> Option<Delivery> {
        if let Self::Plain(queue) = self
            && delivery.message.priority == 0
            && !delivery.latest
        {
            queue.push_back(delivery);
            return None;
        }
        self.push_sorted(delivery)
    }

    #[cold]
    fn push_sorted(&mut self, delivery: Delivery) -> Option<Delivery> {
        if delivery.latest && !matches!(self, Self::Latest(_)) {
            let turns = match self {
                Self::Levels(queue) => queue.turns,
                Self::Plain(_) | Self::Latest(_) => Turns::default(),
            };
            let before = std::mem::take(self);
            let mut queue: LatestQueue = before.into_iter().collect();
            queue.turns = turns;
            *self = Self::Latest(Box::new(queue));
        } else if let Self::Plain(queue) = self {
            *self = Self::Levels(Box::new(std::mem::take(queue).into_iter().collect()));
        }
        match self {
            Self::Plain(_) => None,
            Self::Levels(queue) => {
                queue.push(delivery);
                None
            }
            Self::Latest(queue) => queue.push(delivery),
        }
    }

    /// The delivery that goes next, where of `share` messages one is of a lower priority than the highest that waits.
    #[inline]
    pub(crate) fn front(&self, share: u16) -> Option<&Delivery> {
        match self {
            Self::Plain(queue) => queue.front(),
            Self::Levels(queue) => queue.front(share),
            Self::Latest(queue) => queue.front(share),
        }
    }

    /// Takes what [`SessionQueue::front`] shows.
    #[inline]
    pub(crate) fn pop_front(&mut self, share: u16) -> Option<Delivery> {
        let taken = match self {
            Self::Plain(queue) => return queue.pop_front(),
            Self::Levels(queue) => queue.pop(share),
            Self::Latest(queue) => queue.pop(share),
        };
        self.settle();
        taken
    }

    /// Takes the oldest delivery of the least priority, if that is at most `priority`: the one that makes room.
    pub(crate) fn pop_least(&mut self, priority: u8) -> Option<Delivery> {
        let taken = match self {
            Self::Plain(queue) => return queue.pop_front(),
            Self::Levels(queue) => queue.pop_least(priority),
            Self::Latest(queue) => queue.pop_least(priority),
        };
        self.settle();
        taken
    }

    /// The older delivery whose place a new one would take, where only the newest of its topic counts.
    pub(crate) fn replaceable(&self, delivery: &Delivery) -> Option<&Delivery> {
        match self {
            Self::Latest(queue) => queue.replaceable(delivery),
            Self::Plain(_) | Self::Levels(_) => None,
        }
    }

    /// Moves the delivery that was added last, if it is the one, before the first that comes after it among the first
    /// `limit`. Where priorities decide it stays where it is.
    pub(crate) fn advance_last(
        &mut self,
        limit: usize,
        is_it: impl Fn(&Delivery) -> bool,
        comes_after: impl Fn(&Delivery) -> bool,
    ) {
        let Self::Plain(queue) = self else { return };
        if !queue.back().is_some_and(is_it) {
            return;
        }
        let others = queue.len().saturating_sub(1).min(limit);
        let place = queue.iter().take(others).position(comes_after);
        if let Some(place) = place
            && let Some(last) = queue.pop_back()
        {
            queue.insert(place, last);
        }
    }

    /// All that wait, in the order in which they came.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = &Delivery> + '_> {
        match self {
            Self::Plain(queue) => Box::new(queue.iter()),
            Self::Levels(queue) => Box::new(queue.iter()),
            Self::Latest(queue) => Box::new(queue.iter()),
        }
    }

    /// An empty queue is a plain one again.
    fn settle(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

impl IntoIterator for SessionQueue {
    type Item = Delivery;
    type IntoIter = Box<dyn Iterator<Item = Delivery>>;

    /// All that wait, in the order in which they came.
    fn into_iter(self) -> Self::IntoIter {
        match self {
            Self::Plain(queue) => Box::new(queue.into_iter()),
            Self::Levels(queue) => Box::new(queue.into_arrivals()),
            Self::Latest(queue) => Box::new(queue.into_arrivals()),
        }
    }
}

impl<'q> IntoIterator for &'q SessionQueue {
    type Item = &'q Delivery;
    type IntoIter = Box<dyn Iterator<Item = &'q Delivery> + 'q>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Delivery> for SessionQueue {
    /// Each delivery stays one, whatever its topic: what was counted as waiting has to be there.
    fn from_iter<I: IntoIterator<Item = Delivery>>(deliveries: I) -> Self {
        let all: Vec<Delivery> = deliveries.into_iter().collect();
        if all.iter().any(|delivery| delivery.latest) {
            Self::Latest(Box::new(all.into_iter().collect()))
        } else if all.iter().any(|delivery| delivery.message.priority != 0) {
            Self::Levels(Box::new(all.into_iter().collect()))
        } else {
            Self::Plain(all.into())
        }
    }
}

#[cfg(test)]
mod tests;
