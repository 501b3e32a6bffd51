//! Other shards' interest in filters without wildcards. It is compact, because most filters are such and every shard
//! knows the filters of all others.
//!
//! Only the hash of a filter is kept. Two filters of one hash share an entry; a message for either goes to the shards
//! that want one of them, and each of those looks its own subscriptions up by name. So a collision costs a message that
//! is sent in vain, and never one that is missing.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use crate::ids::ShardId;

/// Parts of the table; only the full part grows.
const PARTS: usize = 64;
/// A part with less room than this is not worth shrinking.
const SHRINK_MIN: usize = 64;

/// Shards by the hash of the filters that they want.
#[derive(Debug)]
pub(super) struct RemoteInterest {
    parts: Box<[HashTable<Interested>]>,
    /// How many filters beyond the first one a shard wants that have the same hash.
    more: BTreeMap<(u64, ShardId), u32>,
}

#[derive(Clone, Copy, Debug)]
struct Interested {
    hash: u64,
    shards: u64,
}

#[inline]
fn part(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

impl RemoteInterest {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect(), more: BTreeMap::new() }
    }

    /// The shards that want a filter of this hash, one bit each.
    #[inline]
    pub(super) fn shards(&self, hash: u64) -> u64 {
        self.parts[part(hash)].find(hash, |entry| entry.hash == hash).map_or(0, |entry| entry.shards)
    }

    /// Notes that a shard wants one more filter of this hash; returns whether that changes where messages go.
    pub(super) fn add(&mut self, hash: u64, shard: ShardId) -> bool {
        let table = &mut self.parts[part(hash)];
        let bit = 1u64 << shard.0;
        let Some(entry) = table.find_mut(hash, |entry| entry.hash == hash) else {
            table.insert_unique(hash, Interested { hash, shards: bit }, |entry| entry.hash);
            return true;
        };
        if entry.shards & bit != 0 {
            *self.more.entry((hash, shard)).or_default() += 1;
            return false;
        }
        entry.shards |= bit;
        true
    }

    /// Forgets all that a shard wants.
    pub(super) fn remove_all(&mut self, shard: ShardId) {
        let bit = 1u64 << shard.0;
        self.more.retain(|(_, other), _| *other != shard);
        for table in &mut self.parts {
            for entry in table.iter_mut() {
                entry.shards &= !bit;
            }
            table.retain(|entry| entry.shards != 0);
            if table.capacity() >= SHRINK_MIN && table.len() < table.capacity() / 8 {
                table.shrink_to(table.len() * 2, |entry| entry.hash);
            }
        }
    }

    /// Notes that a shard wants one filter of this hash less; returns whether that changes where messages go.
    pub(super) fn remove(&mut self, hash: u64, shard: ShardId) -> bool {
        if let Some(more) = self.more.get_mut(&(hash, shard)) {
            *more -= 1;
            if *more == 0 {
                self.more.remove(&(hash, shard));
            }
            return false;
        }
        let table = &mut self.parts[part(hash)];
        let Ok(mut found) = table.find_entry(hash, |entry| entry.hash == hash) else { return false };
        let bit = 1u64 << shard.0;
        if found.get().shards & bit == 0 {
            return false;
        }
        found.get_mut().shards &= !bit;
        if found.get().shards == 0 {
            found.remove();
            if table.capacity() >= SHRINK_MIN && table.len() < table.capacity() / 8 {
                table.shrink_to(table.len() * 2, |entry| entry.hash);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId(3);
    const B: ShardId = ShardId(63);

    #[test]
    fn filters_of_one_hash_keep_each_other_alive() {
        let mut interest = RemoteInterest::new();
        assert!(interest.add(7, A));
        assert!(!interest.add(7, A), "a second filter of the same hash changes nothing");
        assert!(interest.add(7, B));
        assert_eq!(interest.shards(7), 1 << 3 | 1 << 63);
        assert!(!interest.remove(7, A), "one of the two is still wanted");
        assert_eq!(interest.shards(7), 1 << 3 | 1 << 63);
        assert!(interest.remove(7, A));
        assert_eq!(interest.shards(7), 1 << 63);
        assert!(interest.remove(7, B));
        assert!(!interest.remove(7, B), "a missing interest is not removed");
        assert_eq!(interest.shards(7), 0);
        assert_eq!(interest.shards(8), 0);
    }

    #[test]
    fn of_a_shard_that_is_gone_nothing_is_left() {
        let mut interest = RemoteInterest::new();
        interest.add(7, A);
        interest.add(7, A);
        interest.add(7, B);
        interest.add(8, A);
        interest.remove_all(A);
        assert_eq!((interest.shards(7), interest.shards(8)), (1 << 63, 0));
        assert!(interest.add(7, A), "a returned shard has no interest");
        assert!(interest.remove(7, A));
    }

    #[test]
    fn a_shard_that_comes_and_goes_leaves_no_memory_behind() {
        let mut interest = RemoteInterest::new();
        for hash in 0..10_000u64 {
            interest.add(hash << 30, A);
        }
        for hash in 0..10_000u64 {
            assert!(interest.remove(hash << 30, A));
        }
        assert!(interest.parts.iter().all(|part| part.is_empty() && part.capacity() < 2 * SHRINK_MIN));
    }
}
