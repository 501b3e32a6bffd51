//! A hash table of slab keys whose names stand in the slab.

use hashbrown::HashTable;

/// Number of parts. A part that is full is the only one that grows: with a million names that takes some three
/// milliseconds, where one table would stand still for two hundred.
const PARTS: usize = 64;
/// A part with less room than this is not worth shrinking.
const SHRINK_MIN: usize = 64;

/// Finds keys by the hash of a name that the caller keeps; about eight bytes for each.
#[derive(Debug)]
pub(super) struct KeyTable {
    parts: Box<[HashTable<u32>]>,
}

impl KeyTable {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect() }
    }

    /// The key with this hash for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.parts[part(hash)].find(hash, |key| is_it(*key)).copied()
    }

    /// Adds a key that is not there yet. `hash_of` gives the hash of any key that is.
    pub(super) fn insert(&mut self, hash: u64, key: u32, hash_of: impl Fn(u32) -> u64) {
        self.parts[part(hash)].insert_unique(hash, key, |key| hash_of(*key));
    }

    /// Removes a key; the slab must still hold it and the others.
    pub(super) fn remove(&mut self, hash: u64, key: u32, hash_of: impl Fn(u32) -> u64) {
        let part = &mut self.parts[part(hash)];
        if let Ok(found) = part.find_entry(hash, |other| *other == key) {
            found.remove();
        }
        if part.capacity() >= SHRINK_MIN && part.len() < part.capacity() / 8 {
            part.shrink_to(part.len() * 2, |key| hash_of(*key));
        }
    }
}

/// The table itself uses the lowest and the highest bits.
#[inline]
fn part(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}
