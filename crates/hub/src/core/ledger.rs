//! Which messages are not acknowledged yet, and how many sinks each still waits for.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::message::Message;

/// Ids of messages that all sinks have and that are not acknowledged to the broker; it sends no more at once.
const MAX_SETTLED: usize = 65_536;

/// A message that is not acknowledged.
#[derive(Debug)]
struct Entry<D> {
    /// How to acknowledge its deliveries.
    tokens: Tokens<D>,
    /// Deliveries that the broker will send again.
    come_again: usize,
    /// Sinks that do not have it yet.
    pending: usize,
    /// Whether a sink is without it for ever, and dead letters are, too.
    dropped: bool,
    /// Whether no sink gets a record of it: a step has left it out or has failed.
    left_out: bool,
    message: Arc<Message>,
    size: usize,
}

/// A message, known by its id.
#[derive(Clone, Debug)]
struct ById(Arc<Message>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        &self.0.id
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

/// Tokens of a message: none at QoS 0, or when the connection has ended since, and usually one. There are several when
/// the broker sends it for several filters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tokens<D> {
    first: Option<D>,
    more: Vec<D>,
}

impl<D> Tokens<D> {
    fn new(first: Option<D>) -> Self {
        Self { first, more: Vec::new() }
    }

    fn push(&mut self, token: D) {
        match self.first {
            None => self.first = Some(token),
            Some(_) => self.more.push(token),
        }
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    fn retain(&mut self, stays: impl Fn(&D) -> bool) {
        self.more.retain(&stays);
        if self.first.as_ref().is_some_and(|first| !stays(first)) {
            self.first = self.more.pop();
        }
    }
}

impl<D> IntoIterator for Tokens<D> {
    type Item = D;
    type IntoIter = std::iter::Chain<std::option::IntoIter<D>, std::vec::IntoIter<D>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

/// How a message that comes is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<D> {
    New,
    /// It is on its way to the sinks already.
    Known,
    /// All sinks have it: it is to be acknowledged at once.
    Settled(Option<D>),
}

/// What one more confirmation means for a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Confirmed<D> {
    /// Other sinks do not have it yet.
    Waits,
    /// None waits for it: its deliveries are to be acknowledged.
    Done { tokens: Tokens<D>, dropped: bool, left_out: bool },
}

/// The ledger.
#[derive(Debug)]
pub(super) struct Ledger<D> {
    entries: BTreeMap<u64, Entry<D>>,
    /// The messages whose id lasts.
    by_id: HashMap<ById, u64>,
    /// With the deliveries that the broker will send again.
    settled: HashMap<Arc<str>, usize>,
    settled_order: VecDeque<Arc<str>>,
    next: u64,
    bytes: usize,
}

/// The parts of an entry that are known when a message comes.
#[derive(Debug)]
pub(super) struct NewEntry<D> {
    pub(super) token: Option<D>,
    pub(super) pending: usize,
    pub(super) left_out: bool,
    pub(super) message: Arc<Message>,
}

impl<D> Default for Ledger<D> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            by_id: HashMap::new(),
            settled: HashMap::new(),
            settled_order: VecDeque::new(),
            next: 0,
            bytes: 0,
        }
    }
}

impl<D> Ledger<D> {
    /// A message comes, perhaps again. Each token of this connection counts.
    pub(super) fn arrive(&mut self, message: &Message, token: &mut Option<D>) -> Arrival<D> {
        if !message.lasting_id {
            return Arrival::New;
        }
        let id = message.id.as_str();
        if let Some(entry) = self.by_id.get(id).and_then(|number| self.entries.get_mut(number)) {
            entry.come_again = entry.come_again.saturating_sub(1);
            if let Some(token) = token.take() {
                entry.tokens.push(token);
            }
            return Arrival::Known;
        }
        if let Some(left) = self.settled.get_mut(id) {
            *left -= 1;
            if *left == 0 {
                self.settled.remove(id);
            }
            return Arrival::Settled(token.take());
        }
        Arrival::New
    }

    /// Adds a message that waits for `pending` sinks.
    pub(super) fn add(&mut self, new: NewEntry<D>) -> u64 {
        let number = self.next;
        self.next += 1;
        let NewEntry { token, pending, left_out, message } = new;
        let size = message.size();
        self.bytes += size;
        if message.lasting_id {
            self.by_id.insert(ById(Arc::clone(&message)), number);
        }
        let tokens = Tokens::new(token);
        let entry = Entry { tokens, come_again: 0, pending, dropped: false, left_out, message, size };
        self.entries.insert(number, entry);
        number
    }

    /// A message is not kept for one of its sinks.
    pub(super) fn mark_dropped(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.dropped = true;
        }
    }

    /// One more sink has a message.
    pub(super) fn confirm(&mut self, number: u64) -> Confirmed<D> {
        let Some(entry) = self.entries.get_mut(&number) else { return Confirmed::Waits };
        entry.pending = entry.pending.saturating_sub(1);
        if entry.pending > 0 {
            return Confirmed::Waits;
        }
        let Some(entry) = self.entries.remove(&number) else { return Confirmed::Waits };
        self.bytes = self.bytes.saturating_sub(entry.size);
        if entry.message.lasting_id {
            self.by_id.remove(entry.message.id.as_str());
            if entry.come_again > 0 {
                self.remember(Arc::from(entry.message.id.as_str()), entry.come_again);
            }
        }
        Confirmed::Done { tokens: entry.tokens, dropped: entry.dropped, left_out: entry.left_out }
    }

    fn remember(&mut self, id: Arc<str>, deliveries: usize) {
        if self.settled_order.len() >= MAX_SETTLED
            && let Some(oldest) = self.settled_order.pop_front()
        {
            self.settled.remove(&oldest);
        }
        self.settled_order.push_back(Arc::clone(&id));
        self.settled.insert(id, deliveries);
    }

    /// The connection has ended: no token of it is of use any more, and the broker sends the unacknowledged messages
    /// again.
    pub(super) fn lose_connection(&mut self) {
        for entry in self.entries.values_mut() {
            entry.come_again += entry.tokens.len();
            entry.tokens = Tokens::new(None);
        }
    }

    /// Drops these tokens, and messages that have no other. Returns the messages.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&D) -> bool) -> BTreeSet<u64> {
        let mut gone = BTreeSet::new();
        for (number, entry) in &mut self.entries {
            let before = entry.tokens.len();
            entry.tokens.retain(|token| !is_gone(token));
            if entry.tokens.len() == 0 && before > 0 {
                gone.insert(*number);
            }
        }
        for entry in gone.iter().filter_map(|number| self.entries.remove(number)) {
            self.bytes = self.bytes.saturating_sub(entry.size);
            if entry.message.lasting_id {
                self.by_id.remove(entry.message.id.as_str());
            }
        }
        gone
    }

    /// Messages that are not done.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of these.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the broker took the oldest of them, Unix milliseconds.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(_, entry)| entry.message.timestamp)
    }
}
