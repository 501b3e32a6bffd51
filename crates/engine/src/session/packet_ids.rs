//! Packet ids in use: ids that the server has given out, and ids of QoS 2 messages that it has taken.

use std::collections::VecDeque;

use tidegate_mqtt::PacketId;

/// Number of packet ids, 1..=65,535.
const ALL_IDS: usize = u16::MAX as usize;

/// Entries that the next burst of messages has space for at most before its memory grows.
const SPACE_MAX: usize = 16;

/// The answer that a message in flight waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(clippy::enum_variant_names, reason = "each name says which packet is awaited")]
pub(crate) enum State {
    /// A QoS 1 PUBLISH was sent.
    AwaitPubAck,
    /// A QoS 2 PUBLISH was sent.
    AwaitPubRec,
    /// PUBREL was sent.
    AwaitPubComp,
}

/// A message in flight.
#[derive(Clone, Debug)]
pub(crate) struct InflightEntry<T> {
    id: PacketId,
    /// The awaited packet.
    pub(crate) state: State,
    /// The sent message.
    pub(crate) item: T,
}

impl<T> InflightEntry<T> {
    /// The id it was sent with.
    #[inline]
    pub(crate) fn id(&self) -> PacketId {
        self.id
    }
}

/// Messages sent to one client that it has not completed, in the order of sending.
///
/// Ids count up and around, past those in use. Clients finish mostly in order, which takes constant time; out of order
/// the time is linear in the number in flight, which the caller bounds by its in-flight limit. Without entries it owns
/// no heap.
#[derive(Clone, Debug)]
pub(crate) struct Inflight<T> {
    entries: VecDeque<InflightEntry<T>>,
    next: PacketId,
    /// How many ids from `next` on are known to be free; entries that finish can only make it more.
    free_run: u16,
    /// How many ids from the highest one down are given out to others.
    kept_back: u16,
    /// Entries that the first one brings space for: half of the space of the last burst, so that it follows smaller ones.
    space: u16,
}

impl<T> InflightEntry<T> {
    /// The same packet id, now only to be released, and the item that was in flight under it.
    pub(crate) fn release(self, instead: T) -> (Self, T) {
        (Self { id: self.id, state: State::AwaitPubComp, item: instead }, self.item)
    }
}

impl<T> Inflight<T> {
    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Nothing in flight; the first id will be 1.
    pub(crate) const fn new() -> Self {
        Self { entries: VecDeque::new(), next: PacketId::MIN, free_run: u16::MAX, kept_back: 0, space: 0 }
    }

    /// Reserves this number of ids, from the highest one down, for packets that are not messages.
    pub(crate) fn keep_back(&mut self, ids: u16) {
        self.kept_back = ids;
        self.free_run = 0;
    }

    /// Number in flight.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in flight.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an item under the next free id and returns the id; `None` (and `item` is dropped) when all 65,535 are in
    /// use.
    #[expect(clippy::inline_always, reason = "a separate call copies each message in flight twice")]
    #[inline(always)]
    pub(crate) fn push(&mut self, state: State, item: T) -> Option<PacketId> {
        if self.free_run == 0 {
            self.find_free_run()?;
        }
        let id = self.next;
        self.next = id.next();
        self.free_run -= 1;
        if self.entries.capacity() == 0 {
            self.entries.reserve(usize::from(self.space));
        }
        self.entries.push_back(InflightEntry { id, state, item });
        Some(id)
    }

    /// Adds an item that is in flight already, under an unused id.
    pub(crate) fn push_entry(&mut self, entry: InflightEntry<T>) {
        self.entries.push_back(entry);
        self.free_run = 0;
    }

    /// Adds an item that another node has sent, if its id is not in use here. Ids count on from it.
    pub(crate) fn restore(&mut self, id: PacketId, state: State, item: T) {
        if self.find(id).is_none() {
            self.push_entry(InflightEntry { id, state, item });
            self.next = id.next();
        }
    }

    /// Entries from another process or node, in the order of sending; `None` when two entries have the same id.
    pub(crate) fn from_entries(entries: impl IntoIterator<Item = (PacketId, State, T)>) -> Option<Self> {
        let entries = entries.into_iter().map(|(id, state, item)| InflightEntry { id, state, item });
        let mut inflight =
            Self { entries: entries.collect(), next: PacketId::MIN, free_run: 0, kept_back: 0, space: 0 };
        let mut used = UsedIds::default();
        if !inflight.entries.iter().all(|entry| used.insert(entry.id)) {
            return None;
        }
        match inflight.entries.back() {
            Some(last) => inflight.next = last.id.next(),
            None => inflight = Self::new(),
        }
        Some(inflight)
    }

    /// The entry of `id`.
    #[cfg(test)]
    pub(crate) fn get(&self, id: PacketId) -> Option<&InflightEntry<T>> {
        self.entries.get(self.find(id)?)
    }

    /// The entry of `id`, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: PacketId) -> Option<&mut InflightEntry<T>> {
        let at = self.find(id)?;
        self.entries.get_mut(at)
    }

    /// Takes the entry of `id` out; the others keep their order and the id may be used again.
    #[inline]
    pub(crate) fn finish(&mut self, id: PacketId) -> Option<T> {
        let at = self.find(id)?;
        self.finish_at(at)
    }

    /// The place of the entry of `id`, and the answer that it awaits.
    #[inline]
    pub(crate) fn place_of(&self, id: PacketId) -> Option<(usize, State)> {
        let at = self.find(id)?;
        self.entries.get(at).map(|entry| (at, entry.state))
    }

    /// The item at a place.
    #[inline]
    pub(crate) fn at(&self, at: usize) -> Option<&T> {
        self.entries.get(at).map(|entry| &entry.item)
    }

    /// The same as [`Inflight::finish`] for an entry whose place is known.
    #[expect(clippy::inline_always, reason = "a separate call copies each message in flight twice")]
    #[inline(always)]
    pub(crate) fn finish_at(&mut self, at: usize) -> Option<T> {
        let entry = if at == 0 { self.entries.pop_front() } else { self.entries.remove(at) };
        if self.entries.is_empty() {
            self.space = (self.entries.capacity() / 2).min(SPACE_MAX) as u16;
            self.entries = VecDeque::new();
        }
        entry.map(|entry| entry.item)
    }

    /// All entries in the order of sending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &InflightEntry<T>> + ExactSizeIterator {
        self.entries.iter()
    }

    /// Takes all entries out in the order of sending; ids count on from where they were.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = InflightEntry<T>> + use<T> {
        std::mem::take(&mut self.entries).into_iter()
    }

    /// The place of `id`. Ids mostly follow each other, so their distance from the first one is the place, or lies
    /// beyond it by the entries that have finished in between.
    #[inline]
    fn find(&self, id: PacketId) -> Option<usize> {
        let first = self.entries.front()?.id;
        let guess = usize::from(distance(first, id)).min(self.entries.len() - 1);
        if self.entries.get(guess)?.id == id {
            return Some(guess);
        }
        self.find_near(guess, id)
    }

    #[cold]
    fn find_near(&self, guess: usize, id: PacketId) -> Option<usize> {
        let below = self.entries.range(..guess).rposition(|entry| entry.id == id);
        below.or_else(|| {
            let above = self.entries.range(guess..).position(|entry| entry.id == id);
            above.map(|place| guess + place)
        })
    }

    /// Moves `next` to a free id and counts the free ones from there; `None` when all ids are in use. It runs once per
    /// round of ids, and once more for each entry that the round meets.
    #[cold]
    fn find_free_run(&mut self) -> Option<()> {
        let mut used = UsedIds::default();
        for entry in &self.entries {
            used.insert(entry.id);
        }
        for id in (u16::MAX - self.kept_back..u16::MAX).filter_map(|below| PacketId::new(below + 1)) {
            used.insert(id);
        }
        let is_free = |id: &PacketId| !used.contains(*id);
        let round = || std::iter::successors(Some(self.next), |id| Some(id.next())).take(ALL_IDS);
        let skipped = round().position(|id| is_free(&id))?;
        let run = round().skip(skipped).take_while(is_free).count();
        self.next = round().nth(skipped)?;
        self.free_run = run as u16;
        Some(())
    }
}

impl<T> Default for Inflight<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A set of packet ids, a bit for each.
pub(crate) struct UsedIds([u64; 1024]);

impl Default for UsedIds {
    fn default() -> Self {
        Self([0; 1024])
    }
}

impl UsedIds {
    /// Adds an id; returns whether it is new.
    pub(crate) fn insert(&mut self, id: PacketId) -> bool {
        let is_new = !self.contains(id);
        let number = usize::from(id.get());
        self.0[number / 64] |= 1 << (number % 64);
        is_new
    }

    /// Adds the lowest id that it does not have; `None` when it has all.
    pub(crate) fn insert_free(&mut self) -> Option<PacketId> {
        let id = (1..=u16::MAX).filter_map(PacketId::new).find(|id| !self.contains(*id))?;
        self.insert(id);
        Some(id)
    }

    fn contains(&self, id: PacketId) -> bool {
        let number = usize::from(id.get());
        self.0[number / 64] & (1 << (number % 64)) != 0
    }
}

/// How many steps of [`PacketId::next`] lead from one id to the other, 0..=65,534.
#[inline]
fn distance(from: PacketId, to: PacketId) -> u16 {
    let (from, to) = (from.get(), to.get());
    // Counting past the end skips zero, which is no id.
    if to >= from { to - from } else { to.wrapping_sub(from) - 1 }
}

/// The ids of QoS 2 messages that a client has sent and not released yet: a message that arrives again under
/// one of them has been passed on already [MQTT-4.3.3-10]. The receive maximum bounds its size. Without ids it owns no heap.
///
/// Kept in ascending order. Ids that count up are added and removed in constant time, others by moving two bytes for
/// each id on the shorter side.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceivedIds {
    ids: VecDeque<PacketId>,
}

impl ReceivedIds {
    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.ids.shrink_to_fit();
    }

    /// Number of ids.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if no id is in use.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds an id; returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, id: PacketId) -> bool {
        if self.ids.back().is_none_or(|last| *last < id) {
            self.ids.push_back(id);
            return true;
        }
        match self.ids.binary_search(&id) {
            Ok(_) => false,
            Err(place) => {
                self.ids.insert(place, id);
                true
            }
        }
    }

    /// Removes an id; returns whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, id: PacketId) -> bool {
        if self.ids.front() == Some(&id) {
            self.ids.pop_front();
        } else {
            let Ok(place) = self.ids.binary_search(&id) else {
                return false;
            };
            self.ids.remove(place);
        }
        if self.ids.is_empty() {
            self.ids = VecDeque::new();
        }
        true
    }

    /// Whether an id is contained. Of ids that count up, the next one is above the last.
    #[inline]
    pub(crate) fn contains(&self, id: PacketId) -> bool {
        let above = self.ids.back().is_none_or(|last| *last < id);
        !above && (self.ids.front() == Some(&id) || self.ids.binary_search(&id).is_ok())
    }

    /// All ids, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PacketId> {
        self.ids.iter().copied()
    }
}

#[cfg(test)]
mod tests;
