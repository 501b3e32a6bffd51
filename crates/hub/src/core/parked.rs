//! Messages whose records are made when there is memory for them. The window of the source bounds their number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::message::Message;

/// A message that waits, and how its deliveries are acknowledged: there are several when the broker sends it for several
/// filters.
#[derive(Debug)]
pub(super) struct ParkedMessage<D> {
    /// The wall clock when it came, Unix milliseconds.
    pub(super) clock: u64,
    pub(super) message: Arc<Message>,
    pub(super) tokens: Vec<D>,
}

/// Messages in order.
#[derive(Debug)]
pub(super) struct Parked<D> {
    waiting: VecDeque<ParkedMessage<D>>,
    /// The place of each message whose id lasts, counted from the first message that has ever waited.
    places: HashMap<String, usize>,
    /// Messages that have left.
    left: usize,
}

impl<D> Default for Parked<D> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), places: HashMap::new(), left: 0 }
    }
}

impl<D> Parked<D> {
    pub(super) fn push(&mut self, clock: u64, message: &Arc<Message>, token: D) {
        let known = self.places.get(&message.id).and_then(|place| self.waiting.get_mut(place - self.left));
        if let Some(known) = known.filter(|_| message.lasting_id) {
            known.tokens.push(token);
            return;
        }
        if message.lasting_id {
            self.places.insert(message.id.clone(), self.left + self.waiting.len());
        }
        self.waiting.push_back(ParkedMessage { clock, message: Arc::clone(message), tokens: vec![token] });
    }

    pub(super) fn pop(&mut self) -> Option<ParkedMessage<D>> {
        let first = self.waiting.pop_front()?;
        self.left += 1;
        self.places.remove(&first.message.id);
        Some(first)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Drops the tokens that are gone, and messages without one.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&D) -> bool) {
        for waiting in std::mem::take(self).waiting {
            for token in waiting.tokens.into_iter().filter(|token| !is_gone(token)) {
                self.push(waiting.clock, &waiting.message, token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_comes_again_waits_once() {
        let message = |id: &str, lasting_id| Arc::new(Message { id: id.to_owned(), lasting_id, ..Message::default() });
        let mut parked = Parked::default();
        for (token, (id, lasts)) in
            [("a", true), ("b", true), ("a", true), ("x", false), ("x", false)].iter().enumerate()
        {
            parked.push(0, &message(id, *lasts), token);
        }
        assert_eq!((parked.len(), parked.pop().unwrap().tokens), (4, vec![0, 2]));
        parked.push(0, &message("a", true), 5);
        parked.push(0, &message("b", true), 6);
        parked.forget(|token| matches!(token, 1 | 3));
        let rest: Vec<Vec<usize>> = std::iter::from_fn(|| parked.pop()).map(|waiting| waiting.tokens).collect();
        assert_eq!(rest, [vec![6], vec![4], vec![5]]);
    }
}
