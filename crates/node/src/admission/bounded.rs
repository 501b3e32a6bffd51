//! A map that never grows beyond its limit: the entry that was used longest ago is evicted.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A bounded map in the order in which its keys were last named. Every step costs a logarithm, so that a peer who
/// chooses the keys cannot make one expensive.
#[derive(Debug)]
pub(crate) struct OldestOut<K, V> {
    limit: usize,
    entries: HashMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K: Clone + Eq + Hash, V> OldestOut<K, V> {
    /// A map of at most `limit` entries, at least one.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), entries: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }

    /// The value of a key, created if it does not exist; the key is now the most recent.
    pub(crate) fn named(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(key) && self.entries.len() >= self.limit {
            self.evict();
        }
        let stamp = self.next;
        self.next += 1;
        let entry = self.entries.entry(key.clone()).or_insert_with(|| (stamp, make()));
        self.order.remove(&entry.0);
        entry.0 = stamp;
        self.order.insert(stamp, key.clone());
        &mut entry.1
    }

    fn evict(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.entries.remove(&key);
        }
    }

    /// All values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_the_keys_that_were_named_last(keys in prop::collection::vec(0_u8..12, 0..200), limit in 1_usize..8) {
            let mut map = OldestOut::new(limit);
            let mut expected: Vec<u8> = Vec::new();
            for key in keys {
                *map.named(&key, || 0_u32) += 1;
                expected.retain(|other| *other != key);
                expected.push(key);
                if expected.len() > limit {
                    expected.remove(0);
                }
                prop_assert_eq!(map.entries.len(), expected.len());
                prop_assert!(expected.iter().all(|key| map.entries.contains_key(key)));
                prop_assert_eq!(map.order.len(), map.entries.len());
            }
        }
    }
}
