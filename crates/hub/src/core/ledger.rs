//! Which messages are not acknowledged yet, and how many sinks each still waits for.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

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
    /// The hash of its id, if the id lasts.
    id_hash: Option<u64>,
    size: usize,
}

/// An entry whose message has an id that lasts. The entry goes without a look at the id.
#[derive(Debug)]
struct Known {
    /// The hash of the id.
    hash: u64,
    number: u64,
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

/// The effect of one more confirmation for a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Confirmed<D> {
    /// Other sinks do not have it yet.
    Waits,
    /// None waits for it: its deliveries are to be acknowledged.
    Done { tokens: Tokens<D>, dropped: bool, left_out: bool, message: Arc<Message> },
}

/// Entries by their numbers, which rise. They mostly leave in the order in which they came, so a place is found by the
/// distance from the first.
#[derive(Debug)]
struct Entries<D> {
    places: VecDeque<(u64, Option<Entry<D>>)>,
    /// Places with an entry.
    len: usize,
}

impl<D> Default for Entries<D> {
    fn default() -> Self {
        Self { places: VecDeque::new(), len: 0 }
    }
}

impl<D> Entries<D> {
    /// Empty places that may stay, beside as many as there are entries: one message may wait for long while others leave.
    const MAX_EMPTY: usize = 1024;

    /// Adds an entry with a larger number than all before.
    fn push(&mut self, number: u64, entry: Entry<D>) {
        self.places.push_back((number, Some(entry)));
        self.len += 1;
    }

    fn place(&self, number: u64) -> Option<usize> {
        let (first, _) = self.places.front()?;
        let near = usize::try_from(number.checked_sub(*first)?).ok()?;
        if self.places.get(near).is_some_and(|(other, _)| *other == number) {
            return Some(near);
        }
        self.places.binary_search_by_key(&number, |(other, _)| *other).ok()
    }

    fn get(&self, number: u64) -> Option<&Entry<D>> {
        self.places.get(self.place(number)?)?.1.as_ref()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Entry<D>> {
        let place = self.place(number)?;
        self.places.get_mut(place)?.1.as_mut()
    }

    fn remove(&mut self, number: u64) -> Option<Entry<D>> {
        self.remove_if(number, |_| true)
    }

    /// Removes an entry, if it is to go after a change.
    fn remove_if(&mut self, number: u64, goes: impl FnOnce(&mut Entry<D>) -> bool) -> Option<Entry<D>> {
        let place = self.place(number)?;
        let (_, held) = self.places.get_mut(place)?;
        let entry = held.take_if(goes)?;
        self.len -= 1;
        while self.places.front().is_some_and(|(_, entry)| entry.is_none()) {
            self.places.pop_front();
        }
        if self.places.len() > 2 * self.len + Self::MAX_EMPTY {
            self.places.retain(|(_, entry)| entry.is_some());
        }
        Some(entry)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Entry<D>)> {
        self.places.iter_mut().filter_map(|(number, entry)| Some((*number, entry.as_mut()?)))
    }

    fn first(&self) -> Option<&Entry<D>> {
        self.places.front()?.1.as_ref()
    }
}

/// The ledger.
#[derive(Debug)]
pub(super) struct Ledger<D> {
    entries: Entries<D>,
    /// The messages whose id lasts.
    by_id: HashTable<Known>,
    hasher: RandomState,
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
    /// Bytes of its records that count beside its own.
    pub(super) record_bytes: usize,
}

impl<D> Default for Ledger<D> {
    fn default() -> Self {
        Self {
            entries: Entries::default(),
            by_id: HashTable::new(),
            hasher: RandomState::default(),
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
        let is_it = |known: &Known| self.entries.get(known.number).is_some_and(|entry| entry.message.id == id);
        let known = self.by_id.find(self.hasher.hash_one(id), is_it).map(|known| known.number);
        if let Some(entry) = known.and_then(|number| self.entries.get_mut(number)) {
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
        let NewEntry { token, pending, left_out, message, record_bytes } = new;
        let size = message.size() + record_bytes;
        self.bytes += size;
        let id_hash = message.lasting_id.then(|| self.hasher.hash_one(message.id.as_str()));
        if let Some(hash) = id_hash {
            self.by_id.insert_unique(hash, Known { hash, number }, |known| known.hash);
        }
        let tokens = Tokens::new(token);
        let entry = Entry { tokens, come_again: 0, pending, dropped: false, left_out, message, id_hash, size };
        self.entries.push(number, entry);
        number
    }

    /// A message is not kept for one of its sinks.
    pub(super) fn mark_dropped(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(number) {
            entry.dropped = true;
        }
    }

    /// One more sink has a message.
    pub(super) fn confirm(&mut self, number: u64) -> Confirmed<D> {
        let is_last = |entry: &mut Entry<D>| {
            entry.pending = entry.pending.saturating_sub(1);
            entry.pending == 0
        };
        let Some(entry) = self.entries.remove_if(number, is_last) else { return Confirmed::Waits };
        self.let_go(number, &entry);
        if entry.id_hash.is_some() && entry.come_again > 0 {
            self.remember(Arc::from(entry.message.id.as_str()), entry.come_again);
        }
        let Entry { tokens, dropped, left_out, message, .. } = entry;
        Confirmed::Done { tokens, dropped, left_out, message }
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
        for (_, entry) in self.entries.iter_mut() {
            entry.come_again += entry.tokens.len();
            entry.tokens = Tokens::new(None);
        }
    }

    /// Drops these tokens, and messages that have no other. Returns the messages.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&D) -> bool) -> BTreeSet<u64> {
        let mut gone = BTreeSet::new();
        for (number, entry) in self.entries.iter_mut() {
            let before = entry.tokens.len();
            entry.tokens.retain(|token| !is_gone(token));
            if entry.tokens.len() == 0 && before > 0 {
                gone.insert(number);
            }
        }
        for number in &gone {
            self.discard(*number);
        }
        gone
    }

    /// Drops an entry without tokens.
    pub(super) fn discard(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(number) {
            self.let_go(number, &entry);
        }
    }

    /// An entry has gone.
    fn let_go(&mut self, number: u64, entry: &Entry<D>) {
        self.bytes = self.bytes.saturating_sub(entry.size);
        let place = entry.id_hash.map(|hash| self.by_id.find_entry(hash, |known| known.number == number));
        if let Some(Ok(place)) = place {
            place.remove();
        }
    }

    /// Messages that are not done.
    pub(super) fn len(&self) -> usize {
        self.entries.len
    }

    /// Bytes of these.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the broker took the oldest of them, Unix milliseconds.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.message.timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(ledger: &mut Ledger<u64>, number: u64) -> u64 {
        let message = Message { id: number.to_string(), lasting_id: true, timestamp: number, ..Message::default() };
        let message = Arc::new(message);
        ledger.add(NewEntry { token: Some(number), pending: 1, left_out: false, message, record_bytes: 0 })
    }

    fn arrive(ledger: &mut Ledger<u64>, number: u64, token: u64) -> Arrival<u64> {
        let message = Message { id: number.to_string(), lasting_id: true, ..Message::default() };
        ledger.arrive(&message, &mut Some(token))
    }

    fn tokens(confirmed: Confirmed<u64>) -> Vec<u64> {
        let Confirmed::Done { tokens, .. } = confirmed else { panic!("it waits") };
        tokens.into_iter().collect()
    }

    #[test]
    fn ids_with_one_hash_stay_apart() {
        let mut ledger = Ledger::default();
        let (first, second) = (add(&mut ledger, 1), add(&mut ledger, 2));
        // The second one as if its id had the hash of the first, before and behind it.
        let hash = ledger.hasher.hash_one("1");
        ledger.by_id.insert_unique(hash, Known { hash, number: second }, |known| known.hash);
        ledger.by_id.insert_unique(hash, Known { hash, number: 99 }, |known| known.hash);
        assert_eq!(arrive(&mut ledger, 1, 11), Arrival::Known);
        assert_eq!(arrive(&mut ledger, 3, 13), Arrival::New);
        assert_eq!(tokens(ledger.confirm(first)), [1, 11]);
        assert_eq!(arrive(&mut ledger, 1, 21), Arrival::New, "its entry has gone, and no other counts as it");
        assert_eq!(arrive(&mut ledger, 2, 12), Arrival::Known);
        assert_eq!(tokens(ledger.confirm(second)), [2, 12]);
    }

    #[test]
    fn an_entry_that_goes_leaves_the_other_of_its_id() {
        let mut ledger = Ledger::default();
        let (first, second) = (add(&mut ledger, 7), add(&mut ledger, 7));
        assert_eq!(tokens(ledger.confirm(first)), [7]);
        assert_eq!(arrive(&mut ledger, 7, 17), Arrival::Known);
        assert_eq!(tokens(ledger.confirm(second)), [7, 17]);
        assert_eq!((arrive(&mut ledger, 7, 27), ledger.by_id.len()), (Arrival::New, 0));
    }

    #[test]
    fn a_message_that_stays_holds_no_places_of_others() {
        let mut ledger = Ledger::default();
        let stays = add(&mut ledger, 7);
        for number in 100..10_000 {
            let entry = add(&mut ledger, number);
            let tokens = Tokens::new(Some(number));
            let Confirmed::Done { tokens: own, message, .. } = ledger.confirm(entry) else { panic!("it waits") };
            assert_eq!((own, message.timestamp, Arc::strong_count(&message)), (tokens, number, 1));
            assert_eq!(ledger.confirm(entry), Confirmed::Waits, "it is confirmed once");
            assert!(ledger.entries.places.len() <= 2 + Entries::<u64>::MAX_EMPTY);
        }
        let later = add(&mut ledger, 10_000);
        assert_eq!((ledger.len(), ledger.oldest(), ledger.by_id.len()), (2, Some(7), 2));
        assert!(matches!(ledger.confirm(stays), Confirmed::Done { .. }));
        assert_eq!((ledger.len(), ledger.oldest()), (1, Some(10_000)));
        assert!(matches!(ledger.confirm(later), Confirmed::Done { .. }));
        assert_eq!((ledger.bytes(), ledger.oldest(), ledger.by_id.len()), (0, None, 0));
        assert!(ledger.entries.places.is_empty());
    }
}
