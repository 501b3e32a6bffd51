//! The messages that each subscriber has received, for ever: one bit for each.

use std::collections::HashMap;

use super::MessageId;

/// Receipts of all subscribers.
#[derive(Debug)]
pub(super) struct Receipts {
    publishers: usize,
    /// For each subscriber and publisher a bit for each message.
    bits: Vec<Vec<u64>>,
    /// The newest message per subscriber, topic and publisher.
    newest: HashMap<(u16, u32, u16), u32>,
}

impl Receipts {
    pub(super) fn new(subscribers: usize, publishers: usize) -> Self {
        Self { publishers, bits: vec![Vec::new(); subscribers * publishers], newest: HashMap::new() }
    }

    fn place(&self, subscriber: u16, id: MessageId) -> usize {
        usize::from(subscriber) * self.publishers + usize::from(id.publisher)
    }

    /// True when the subscriber has received the message.
    pub(super) fn has(&self, subscriber: u16, id: MessageId) -> bool {
        let word = self.bits.get(self.place(subscriber, id)).and_then(|words| words.get(id.number as usize / 64));
        word.is_some_and(|word| word & (1 << (id.number % 64)) != 0)
    }

    /// Notes a receipt. True when it is the first.
    pub(super) fn first(&mut self, subscriber: u16, id: MessageId) -> bool {
        let before = self.has(subscriber, id);
        let (place, word) = (self.place(subscriber, id), id.number as usize / 64);
        if let Some(words) = self.bits.get_mut(place) {
            words.resize(words.len().max(word + 1), 0);
            words[word] |= 1 << (id.number % 64);
        }
        !before
    }

    /// Notes a first receipt. False when the subscriber has had a later message of this topic and publisher before.
    pub(super) fn in_order(&mut self, subscriber: u16, topic: u32, id: MessageId) -> bool {
        let newest = self.newest.entry((subscriber, topic, id.publisher)).or_insert(id.number);
        let ordered = id.number >= *newest;
        *newest = id.number.max(*newest);
        ordered
    }
}
