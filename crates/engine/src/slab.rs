//! Tables with small dense keys whose slots are reused: the home of connections, sessions, filters and trie nodes.

use std::ops::{Index, IndexMut};

use crate::ids::ConnectionKey;

/// Entries per chunk. A chunk is allocated whole and never moves, and only its used part has been touched.
const CHUNK: usize = 128;
/// The end of a chunk's list of free slots.
const NO_SLOT: u8 = u8::MAX;
/// In a slot whose entry was withdrawn: its key stays in use.
const HELD: u8 = u8::MAX - 1;

const _: () = assert!(CHUNK.is_power_of_two() && CHUNK <= HELD as usize);

/// A table that hands out `u32` keys. Insertion, removal and look-up take constant time; growth copies no entry.
///
/// The lowest chunk with room is filled first, so that after a peak the high chunks drain. A chunk without entries is
/// freed at once, except one that is kept so that a single entry coming and going does not allocate each time. Keys are
/// reused: see [`GenSlab`] where a stale key must not reach the successor. Holds at most `u32::MAX` entries; the limits
/// of all callers are far below.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks that have room.
    vacancies: Vacancies,
    /// The one chunk that has no entries yet keeps its memory.
    spare: Option<usize>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    /// The slots touched so far; capacity is 0 or [`CHUNK`].
    slots: Vec<Slot<T>>,
    live: u8,
    /// First slot of the list of free ones below `slots.len()`.
    free: u8,
}

#[derive(Debug)]
enum Slot<T> {
    Taken(T),
    /// `next` is the next slot of the chunk's list of free ones, or [`HELD`] in a slot that is not on it.
    Free {
        next: u8,
    },
}

impl<T> Slab<T> {
    /// An empty table, which owns no memory.
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), vacancies: Vacancies::new(), spare: None, len: 0 }
    }

    /// Number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[inline]
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts `value` into the lowest chunk with room and returns its key.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let at = match self.vacancies.lowest() {
            Some(at) => at,
            None => self.add_chunk(),
        };
        let chunk = &mut self.chunks[at];
        let slot = chunk.insert(value);
        if chunk.live as usize == CHUNK {
            self.vacancies.clear(at);
        }
        if self.spare == Some(at) {
            self.spare = None;
        }
        self.len += 1;
        (at * CHUNK + slot) as u32
    }

    /// Takes the entry of `key` out; its key may be handed out again from now on.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let (at, slot) = split(key);
        let value = self.chunks.get_mut(at)?.remove(slot)?;
        self.len -= 1;
        self.note_vacancy(at);
        Some(value)
    }

    /// Takes the entry of `key` out and keeps the key from being handed out again until [`Slab::release`].
    pub(crate) fn withdraw(&mut self, key: u32) -> Option<T> {
        let (at, slot) = split(key);
        let slot = self.chunks.get_mut(at)?.slots.get_mut(slot)?;
        if !matches!(slot, Slot::Taken(_)) {
            return None;
        }
        let Slot::Taken(value) = std::mem::replace(slot, Slot::Free { next: HELD }) else { return None };
        self.len -= 1;
        Some(value)
    }

    /// Lets the key of an entry that was withdrawn be handed out again.
    pub(crate) fn release(&mut self, key: u32) {
        let (at, slot) = split(key);
        if self.chunks.get_mut(at).is_some_and(|chunk| chunk.release(slot)) {
            self.note_vacancy(at);
        }
    }

    /// A slot of a chunk has become free.
    fn note_vacancy(&mut self, at: usize) {
        if self.chunks[at].live == 0 {
            self.retire(at);
        } else {
            self.vacancies.set(at);
        }
    }

    /// The entry of `key`.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        let (at, slot) = split(key);
        match self.chunks.get(at)?.slots.get(slot)? {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// The entry of `key`, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let (at, slot) = split(key);
        match self.chunks.get_mut(at)?.slots.get_mut(slot)? {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// All entries in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.iter_from(0)
    }

    /// All entries in the order of their keys, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flat_map(|chunk| &mut chunk.slots).filter_map(|content| match content {
            Slot::Taken(value) => Some(value),
            Slot::Free { .. } => None,
        })
    }

    /// The entries with keys from `start` on, in order: a walk in bounded steps continues from the last key plus one.
    pub(crate) fn iter_from(&self, start: u32) -> impl Iterator<Item = (u32, &T)> {
        let (first, skip) = split(start);
        let chunks = self.chunks.iter().enumerate().skip(first);
        chunks.flat_map(move |(at, chunk)| {
            let skip = if at == first { skip } else { 0 };
            let slots = chunk.slots.iter().enumerate().skip(skip);
            slots.filter_map(move |(slot, content)| match content {
                Slot::Taken(value) => Some(((at * CHUNK + slot) as u32, value)),
                Slot::Free { .. } => None,
            })
        })
    }

    /// Gives back the memory that is only kept for the next insertion.
    pub(crate) fn shrink(&mut self) {
        if let Some(at) = self.spare.take() {
            self.chunks[at].slots = Vec::new();
        }
        self.drop_trailing_chunks();
        self.chunks.shrink_to_fit();
        self.vacancies.shrink_to(self.chunks.len());
    }

    /// Bytes of heap that the table itself holds, without the heap of its entries.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter(|chunk| chunk.slots.capacity() > 0).count();
        chunks * CHUNK * size_of::<Slot<T>>() + self.chunks.capacity() * size_of::<Chunk<T>>()
    }

    fn add_chunk(&mut self) -> usize {
        let at = self.chunks.len();
        assert!(at < u32::MAX as usize / CHUNK, "a table is limited to 2^32 entries");
        self.chunks.push(Chunk { slots: Vec::new(), live: 0, free: NO_SLOT });
        self.vacancies.set(at);
        at
    }

    /// Gives a chunk without entries back or makes it the spare one: the lower of the two stays, as it is filled first.
    fn retire(&mut self, at: usize) {
        self.vacancies.set(at);
        self.chunks[at].slots.clear();
        self.chunks[at].free = NO_SLOT;
        let unneeded = match self.spare {
            Some(spare) if spare < at => at,
            Some(spare) => {
                self.spare = Some(at);
                spare
            }
            None => {
                self.spare = Some(at);
                return;
            }
        };
        self.chunks[unneeded].slots = Vec::new();
        self.drop_trailing_chunks();
    }

    fn drop_trailing_chunks(&mut self) {
        while self.chunks.last().is_some_and(|chunk| chunk.slots.capacity() == 0) {
            self.chunks.pop();
            self.vacancies.clear(self.chunks.len());
        }
    }
}

/// For keys that are known to be in use, such as keys that one table of an index keeps about another.
///
/// # Panics
///
/// When the key is not in use.
impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, key: u32) -> &T {
        let (at, slot) = split(key);
        match &self.chunks[at].slots[slot] {
            Slot::Taken(value) => value,
            Slot::Free { .. } => unused(key),
        }
    }
}

/// As the shared one.
///
/// # Panics
///
/// When the key is not in use.
impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut T {
        let (at, slot) = split(key);
        match &mut self.chunks[at].slots[slot] {
            Slot::Taken(value) => value,
            Slot::Free { .. } => unused(key),
        }
    }
}

#[cold]
fn unused(key: u32) -> ! {
    panic!("slot {key} is not in use")
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Chunk<T> {
    /// Puts a value into a chunk that has room.
    #[inline]
    fn insert(&mut self, value: T) -> usize {
        self.live += 1;
        let at = usize::from(self.free);
        if let Some(slot) = self.slots.get_mut(at) {
            if let Slot::Free { next } = *slot {
                self.free = next;
            }
            *slot = Slot::Taken(value);
            return at;
        }
        if self.slots.capacity() == 0 {
            self.slots.reserve_exact(CHUNK);
        }
        self.slots.push(Slot::Taken(value));
        self.slots.len() - 1
    }

    #[inline]
    fn remove(&mut self, at: usize) -> Option<T> {
        let slot = self.slots.get_mut(at)?;
        if !matches!(slot, Slot::Taken(_)) {
            return None;
        }
        let Slot::Taken(value) = std::mem::replace(slot, Slot::Free { next: self.free }) else {
            return None;
        };
        self.free = at as u8;
        self.live -= 1;
        Some(value)
    }

    /// Frees a slot whose entry was withdrawn; returns whether it was such a slot.
    fn release(&mut self, at: usize) -> bool {
        let Some(slot @ Slot::Free { next: HELD }) = self.slots.get_mut(at) else { return false };
        *slot = Slot::Free { next: self.free };
        self.free = at as u8;
        self.live -= 1;
        true
    }
}

#[inline]
fn split(key: u32) -> (usize, usize) {
    (key as usize / CHUNK, key as usize % CHUNK)
}

/// A set of chunk numbers that finds its lowest in two steps: a bit per chunk and a bit per word of those.
#[derive(Debug)]
struct Vacancies {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Vacancies {
    const fn new() -> Self {
        Self { words: Vec::new(), summary: Vec::new() }
    }

    #[inline]
    fn lowest(&self) -> Option<usize> {
        // A word of the summary covers half a million entries: one or two are looked at in practice.
        let group = self.summary.iter().position(|word| *word != 0)?;
        let word = group * 64 + self.summary[group].trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    #[inline]
    fn set(&mut self, at: usize) {
        let word = at / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
            self.summary.resize(word / 64 + 1, 0);
        }
        self.words[word] |= 1 << (at % 64);
        self.summary[word / 64] |= 1 << (word % 64);
    }

    #[inline]
    fn clear(&mut self, at: usize) {
        let word = at / 64;
        self.words[word] &= !(1 << (at % 64));
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }

    fn shrink_to(&mut self, chunks: usize) {
        let words = chunks.div_ceil(64);
        self.words.truncate(words);
        self.words.shrink_to_fit();
        self.summary.truncate(words.div_ceil(64));
        self.summary.shrink_to_fit();
    }
}

/// A table whose keys also say which use of the slot they mean, so that a key kept too long finds nothing.
///
/// Generations are counted over all insertions of the table and wrap: a stale key would have to be kept for exactly
/// 2^32 insertions to be taken for its successor.
#[derive(Debug)]
pub(crate) struct GenSlab<T> {
    slab: Slab<Generation<T>>,
    next: u32,
}

#[derive(Debug)]
struct Generation<T> {
    number: u32,
    value: T,
}

impl<T> GenSlab<T> {
    /// An empty table, which owns no memory.
    pub(crate) const fn new() -> Self {
        Self { slab: Slab::new(), next: 0 }
    }

    /// Number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Puts `value` in and returns its key.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> ConnectionKey {
        let generation = self.next;
        self.next = generation.wrapping_add(1);
        let index = self.slab.insert(Generation { number: generation, value });
        ConnectionKey { index, generation }
    }

    /// Removes the entry of `key`, if the key still identifies it.
    #[inline]
    pub(crate) fn remove(&mut self, key: ConnectionKey) -> Option<T> {
        self.get(key)?;
        self.slab.remove(key.index).map(|entry| entry.value)
    }

    /// The entry of `key`, if it is still the same entry.
    #[inline]
    pub(crate) fn get(&self, key: ConnectionKey) -> Option<&T> {
        let entry = self.slab.get(key.index)?;
        (entry.number == key.generation).then_some(&entry.value)
    }

    /// The entry of `key` to be changed, if the key still identifies it.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: ConnectionKey) -> Option<&mut T> {
        let entry = self.slab.get_mut(key.index)?;
        (entry.number == key.generation).then_some(&mut entry.value)
    }

    /// All entries in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionKey, &T)> {
        self.slab.iter().map(|(index, entry)| (ConnectionKey { index, generation: entry.number }, &entry.value))
    }

    /// Gives back the memory that is only kept for the next insertion.
    pub(crate) fn shrink(&mut self) {
        self.slab.shrink();
    }
}

impl<T> Default for GenSlab<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
