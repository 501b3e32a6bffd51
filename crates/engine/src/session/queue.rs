//! The queue of a session, and the order in which it is served.
//!
//! A queue of messages that are alike is first-in-first-out. A message with a priority or an expiry, a message that the
//! newest of its topic replaces, and QoS 0 beside QoS 1 or 2 make it a sorted one until it is empty.
//!
//! A client's window (Receive Maximum) holds back messages above QoS 0. Messages of QoS 0 are sent meanwhile: QoS 0
//! keeps its own order, and QoS 1 and 2 theirs ([MQTT-4.6.0-5]).

mod lane;
pub(crate) mod sorted;

use crate::now::Millis;
use crate::session::Delivery;
use crate::session::queue::sorted::SortedQueue;
use std::collections::VecDeque;
use tidegate_mqtt::QoS;

/// The messages that wait for one session. As large as a plain queue while it is one.
#[derive(Debug)]
pub(crate) enum SessionQueue {
    /// First in, first out. Either all need the client's window or none does.
    Plain(VecDeque<Delivery>),
    /// Messages are found by priority, by topic, by expiry, and by whether they need the window.
    Sorted(Box<SortedQueue>),
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
    /// True if the next message is of a lower priority, which gets one of `share` messages; 0 gives it none.
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
            Self::Sorted(queue) => queue.len(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if all messages that need the window are served in the order of their arrival.
    pub(crate) fn is_in_order(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Sorted(queue) => queue.is_in_order(),
        }
    }

    /// Whether any message waits that needs no window: one of QoS 0.
    #[inline]
    pub(crate) fn has_windowless(&self) -> bool {
        match self {
            Self::Plain(queue) => queue.front().is_some_and(|first| first.qos == QoS::AtMostOnce),
            Self::Sorted(queue) => queue.has_windowless(),
        }
    }

    /// Whether some messages are replaced by newer ones of their topic.
    #[inline]
    pub(crate) fn has_latest(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Sorted(queue) => queue.has_latest(),
        }
    }

    /// Adds a delivery behind all others of its priority. Returns the older one of its topic that it replaces.
    #[inline]
    pub(crate) fn push_back(&mut self, delivery: Delivery) -> Option<Delivery> {
        if let Self::Plain(queue) = self
            && is_plain(&delivery)
            && queue.front().is_none_or(|first| is_alike(first, &delivery))
        {
            queue.push_back(delivery);
            return None;
        }
        self.push_sorted(delivery)
    }

    #[cold]
    fn push_sorted(&mut self, delivery: Delivery) -> Option<Delivery> {
        if let Self::Plain(queue) = self {
            *self = Self::Sorted(Box::new(std::mem::take(queue).into_iter().collect()));
        }
        match self {
            Self::Plain(_) => None,
            Self::Sorted(queue) => queue.push(delivery),
        }
    }

    /// The delivery that is next, when of `share` messages one has a lower priority than the highest waiting one.
    /// Without a `window` only messages of QoS 0 are sent.
    #[inline]
    pub(crate) fn front(&self, share: u16, window: bool) -> Option<&Delivery> {
        match self {
            Self::Plain(queue) => queue.front().filter(|first| window || first.qos == QoS::AtMostOnce),
            Self::Sorted(queue) => queue.front(share, window),
        }
    }

    /// Takes the message of [`SessionQueue::front`].
    #[inline]
    pub(crate) fn pop_front(&mut self, share: u16, window: bool) -> Option<Delivery> {
        let taken = match self {
            Self::Plain(queue) => {
                let goes = window || queue.front().is_some_and(|first| first.qos == QoS::AtMostOnce);
                return if goes { queue.pop_front() } else { None };
            }
            Self::Sorted(queue) => queue.pop(share, window),
        };
        self.settle();
        taken
    }

    /// Takes the oldest delivery of the least priority, if that is at most `priority`, to make room.
    pub(crate) fn pop_least(&mut self, priority: u8) -> Option<Delivery> {
        let taken = match self {
            Self::Plain(queue) => return queue.pop_front(),
            Self::Sorted(queue) => queue.pop_least(priority),
        };
        self.settle();
        taken
    }

    /// When the first delivery expires; [`Millis::NEVER`] if none does.
    #[inline]
    pub(crate) fn next_expiry(&self) -> Millis {
        match self {
            Self::Plain(_) => Millis::NEVER,
            Self::Sorted(queue) => queue.next_expiry(),
        }
    }

    /// Takes the delivery that expires first, if it has expired. Costs nothing if none has, and otherwise time in the
    /// logarithm of the queue's length.
    pub(crate) fn pop_expired(&mut self, now: Millis) -> Option<Delivery> {
        let Self::Sorted(queue) = self else { return None };
        let taken = queue.pop_expired(now)?;
        self.settle();
        Some(taken)
    }

    /// The older delivery whose place a new one would take, where only the newest of its topic counts.
    pub(crate) fn replaceable(&self, delivery: &Delivery) -> Option<&Delivery> {
        match self {
            Self::Plain(_) => None,
            Self::Sorted(queue) => queue.replaceable(delivery),
        }
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        match self {
            Self::Plain(queue) => queue.shrink_to_fit(),
            Self::Sorted(queue) => queue.shrink(),
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
        let queue = match self {
            Self::Plain(queue) => queue,
            Self::Sorted(queue) => return queue.advance_last(limit, is_it, comes_after),
        };
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
            Self::Sorted(queue) => Box::new(queue.iter()),
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
            Self::Sorted(queue) => Box::new(queue.into_arrivals()),
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
    /// Each delivery stays one, whatever its topic: messages counted as waiting must exist.
    fn from_iter<I: IntoIterator<Item = Delivery>>(deliveries: I) -> Self {
        let all: VecDeque<Delivery> = deliveries.into_iter().collect();
        if all.iter().all(is_plain) && all.front().is_none_or(|first| all.iter().all(|other| is_alike(first, other))) {
            Self::Plain(all)
        } else {
            Self::Sorted(Box::new(all.into_iter().collect()))
        }
    }
}

/// Whether a delivery may wait in a plain queue.
#[inline]
fn is_plain(delivery: &Delivery) -> bool {
    delivery.message.priority == 0 && !delivery.latest && delivery.message.expires_at == Millis::NEVER
}

/// Whether both deliveries need the client's window, or neither does.
#[inline]
fn is_alike(one: &Delivery, other: &Delivery) -> bool {
    (one.qos == QoS::AtMostOnce) == (other.qos == QoS::AtMostOnce)
}

#[cfg(test)]
mod tests;
