//! The books of the messages: which were acknowledged, and which have come.

use std::time::Duration;

const ACKNOWLEDGED: u8 = 1;
const RECEIVED: u8 = 2;
const TWICE: u8 = 4;

/// The state of each message, by its number from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    entries: Vec<u8>,
    /// When the last message came, since the beginning.
    last: Option<Duration>,
    longest_silence: Duration,
    /// A number from which on messages are waited for, and when the first of them has come.
    awaited: Option<(usize, Option<Duration>)>,
}

/// The sums of the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) sent: usize,
    pub(super) acknowledged: usize,
    pub(super) received: usize,
    pub(super) twice: usize,
    /// Acknowledged, and not received.
    pub(super) lost: usize,
    pub(super) longest_silence: Duration,
}

impl Books {
    /// The number of the next message, which is sent now.
    pub(super) fn send(&mut self) -> usize {
        self.entries.push(0);
        self.entries.len() - 1
    }

    pub(super) fn acknowledge(&mut self, number: usize) {
        if let Some(entry) = self.entries.get_mut(number) {
            *entry |= ACKNOWLEDGED;
        }
    }

    /// A message has come. Numbers that were never sent are of another run.
    pub(super) fn receive(&mut self, number: usize, at: Duration) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        *entry |= if *entry & RECEIVED == 0 { RECEIVED } else { TWICE };
        let silence = at.saturating_sub(self.last.unwrap_or(at));
        self.longest_silence = self.longest_silence.max(silence);
        self.last = Some(at);
        if let Some((from, first @ None)) = &mut self.awaited
            && number >= *from
        {
            *first = Some(at);
        }
    }

    /// Waits for a message that is sent from now on.
    pub(super) fn expect_news(&mut self) {
        self.awaited = Some((self.entries.len(), None));
    }

    /// When the first of those has come.
    pub(super) fn news(&self) -> Option<Duration> {
        self.awaited.and_then(|(_, first)| first)
    }

    /// Whether a message has come at all.
    pub(super) const fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    pub(super) fn sums(&self) -> Sums {
        let count = |wanted: u8| self.entries.iter().filter(|entry| **entry & wanted != 0).count();
        let is_lost = |entry: &&u8| **entry & (ACKNOWLEDGED | RECEIVED) == ACKNOWLEDGED;
        Sums {
            sent: self.entries.len(),
            acknowledged: count(ACKNOWLEDGED),
            received: count(RECEIVED),
            twice: count(TWICE),
            lost: self.entries.iter().filter(is_lost).count(),
            longest_silence: self.longest_silence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acknowledged_messages_can_be_lost() {
        let mut books = Books::default();
        let second = Duration::from_secs(1);
        for number in 0..5 {
            assert_eq!(books.send(), number);
        }
        books.receive(0, second);
        books.acknowledge(0);
        books.acknowledge(1);
        books.receive(2, second * 2);
        books.receive(2, second * 9);
        books.acknowledge(7);
        books.receive(7, second * 20);
        let sums = Sums { sent: 5, acknowledged: 2, received: 2, twice: 1, lost: 1, longest_silence: second * 7 };
        assert_eq!(books.sums(), sums);
    }

    #[test]
    fn news_are_messages_that_were_sent_later() {
        let mut books = Books::default();
        books.send();
        books.expect_news();
        books.receive(0, Duration::from_secs(1));
        assert_eq!((books.news(), books.has_begun()), (None, true));
        books.send();
        books.receive(1, Duration::from_secs(2));
        books.receive(1, Duration::from_secs(3));
        assert_eq!(books.news(), Some(Duration::from_secs(2)));
    }
}
