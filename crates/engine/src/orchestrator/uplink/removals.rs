//! Retained values that were removed, while brokers may still have them.
//!
//! A removal reaches the broker that has the value some time after it was acknowledged. Without this memory, a
//! subscription in between would bring the removed value back.

use std::collections::{BTreeMap, VecDeque};

/// Removals remembered by one shard; the oldest make room. A removal is under way for milliseconds, or as long as a
/// broker is away.
const REMOVALS_MAX: usize = 65_536;

/// The topics whose retained value was removed last, with the version of the removal.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    versions: BTreeMap<Box<str>, u64>,
    /// In the order in which they came; some may have been overtaken since.
    order: VecDeque<(Box<str>, u64)>,
}

impl Removals {
    /// Notes that a topic's value was removed.
    pub(crate) fn note(&mut self, topic: &str, version: u64) {
        self.versions.insert(topic.into(), version);
        self.order.push_back((topic.into(), version));
        while self.order.len() > REMOVALS_MAX {
            if let Some((oldest, version)) = self.order.pop_front()
                && self.versions.get(&oldest) == Some(&version)
            {
                self.versions.remove(&oldest);
            }
        }
    }

    /// Whether a value is older than the removal of its topic's.
    pub(crate) fn outdate(&self, topic: &str, version: u64) -> bool {
        self.versions.get(topic).is_some_and(|removed| *removed >= version)
    }

    /// A topic has a value again.
    pub(crate) fn forget(&mut self, topic: &str) {
        self.versions.remove(topic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_outdates_older_values_until_a_newer_one() {
        let mut removals = Removals::default();
        removals.note("a", 5);
        assert!(removals.outdate("a", 5) && removals.outdate("a", 0));
        assert!(!removals.outdate("a", 6) && !removals.outdate("b", 1));
        removals.forget("a");
        assert!(!removals.outdate("a", 1));
    }

    #[test]
    fn the_oldest_removals_make_room_and_newer_ones_of_a_topic_stay() {
        let mut removals = Removals::default();
        removals.note("again", 1);
        removals.note("old", 1);
        removals.note("again", 2);
        for number in 0..REMOVALS_MAX - 1 {
            removals.note(&format!("t/{number}"), 1);
        }
        assert!(!removals.outdate("old", 1) && removals.outdate("again", 2));
        assert_eq!(removals.order.len(), REMOVALS_MAX);
    }
}
