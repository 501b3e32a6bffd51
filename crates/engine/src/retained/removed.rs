//! Retained values that were removed, with the version of each removal.
//!
//! While the home of a topic cannot be reached, another node takes its place for its own clients, so that a topic may
//! have a value at two nodes. When they meet again the newest wins, and a removal counts as a value.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::TenantId;

/// Removals in the image of a partition: each topic, and the version of its removal.
pub(crate) type RemovedImage = Vec<(TenantId, String, u64)>;

/// Removals that a shard remembers; the oldest make room.
const REMOVED_MAX: usize = 65_536;
/// Bytes of the topics of these; the oldest make room.
const REMOVED_MAX_BYTES: usize = 16 * 1024 * 1024;
/// How long a removal is remembered, milliseconds: longer than nodes are away from each other.
const REMOVED_MAX_AGE_MS: u64 = 24 * 60 * 60 * 1000;
/// Bits of a version behind its time.
const COUNTER_BITS: u32 = 16;

/// When a version was made, milliseconds since the Unix epoch.
pub(super) fn time_of(version: u64) -> u64 {
    version >> COUNTER_BITS
}

/// Topics whose retained value was removed.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// The last version that was made or seen here.
    last: u64,
    /// By how much the clock of another node is ahead, milliseconds.
    lead_ms: u64,
    by_topic: BTreeMap<(TenantId, Box<str>), u64>,
    by_version: BTreeSet<(u64, TenantId, Box<str>)>,
    bytes: usize,
}

impl Removed {
    /// A version for a change now: greater than all versions made or seen here.
    pub(super) fn next_version(&mut self, unix: u64) -> u64 {
        self.last = ((unix + self.lead_ms) << COUNTER_BITS).max(self.last + 1);
        self.last
    }

    /// The clock of another node is ahead by so much. Its values stay when it has gone.
    pub(crate) fn follow(&mut self, lead_ms: u64) {
        self.lead_ms = self.lead_ms.max(lead_ms);
    }

    /// Notes a version that another shard or process has made.
    pub(super) fn note_seen(&mut self, version: u64) {
        self.last = self.last.max(version);
    }

    /// The version of a stored value. Values of earlier releases have none, but a hash of their publisher: nearly all of
    /// these are beyond any time, and the others are long ago.
    pub(super) fn version_of(stored: u64, unix: u64) -> u64 {
        if time_of(stored) > unix.saturating_add(REMOVED_MAX_AGE_MS) { 0 } else { stored }
    }

    /// The version of the removal of a topic's value.
    pub(super) fn get(&self, tenant: TenantId, topic: &str) -> Option<u64> {
        if self.by_topic.is_empty() {
            return None;
        }
        self.by_topic.get(&(tenant, topic.into())).copied()
    }

    /// A topic has a value again, or its removal is no longer needed. Returns true if its removal was known.
    pub(crate) fn forget(&mut self, tenant: TenantId, topic: &str) -> bool {
        if self.by_topic.is_empty() {
            return false;
        }
        let Some((name, version)) = self.by_topic.remove_entry(&(tenant, topic.into())) else { return false };
        self.bytes -= topic.len();
        self.by_version.remove(&(version, name.0, name.1));
        true
    }

    /// Notes a removal. Returns the topics whose removals are forgotten in exchange.
    pub(super) fn note(&mut self, tenant: TenantId, topic: &str, version: u64, unix: u64) -> Vec<(TenantId, Box<str>)> {
        self.forget(tenant, topic);
        self.note_seen(version);
        self.by_topic.insert((tenant, topic.into()), version);
        self.by_version.insert((version, tenant, topic.into()));
        self.bytes += topic.len();
        let mut forgotten = Vec::new();
        let oldest = unix.saturating_sub(REMOVED_MAX_AGE_MS);
        while let Some((version, tenant, topic)) = self.by_version.first()
            && (self.by_topic.len() > REMOVED_MAX || self.bytes > REMOVED_MAX_BYTES || time_of(*version) < oldest)
        {
            let (tenant, topic) = (*tenant, topic.clone());
            self.forget(tenant, &topic);
            forgotten.push((tenant, topic));
        }
        forgotten
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TenantId, &str, u64)> {
        self.by_topic.iter().map(|((tenant, topic), version)| (*tenant, &**topic, *version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId::DEFAULT;

    #[test]
    fn versions_grow_with_time_and_beyond_seen_ones() {
        let mut removed = Removed::default();
        let first = removed.next_version(1000);
        assert!(removed.next_version(1000) > first && removed.next_version(900) > first);
        removed.note_seen(5000 << COUNTER_BITS);
        assert!(removed.next_version(1001) > 5000 << COUNTER_BITS);
        removed.follow(9000);
        assert!(removed.next_version(1001) > 10_000 << COUNTER_BITS, "the clock of another node is ahead");
        assert_eq!(Removed::version_of(first, 1000), first);
        assert_eq!(Removed::version_of(u64::MAX, 1000), 0, "a hash of an earlier release");
    }

    #[test]
    fn removals_are_bounded_by_number_bytes_and_age() {
        let mut removed = Removed::default();
        for number in 0..=REMOVED_MAX as u64 {
            let forgotten = removed.note(TENANT, &format!("{number}"), (1000 + number) << COUNTER_BITS, 1000);
            assert_eq!(forgotten.len(), usize::from(number == REMOVED_MAX as u64));
        }
        assert_eq!((removed.get(TENANT, "0"), removed.by_version.len()), (None, REMOVED_MAX));
        let late = 1000 + REMOVED_MAX as u64 + REMOVED_MAX_AGE_MS + 1;
        removed.note(TENANT, "late", late << COUNTER_BITS, late);
        assert_eq!((removed.by_topic.len(), removed.bytes), (1, 4));
        let long = "x".repeat(65_000);
        for number in 0..300 {
            removed.note(TENANT, &format!("{number}{long}"), late << COUNTER_BITS, late);
        }
        assert!(removed.bytes <= REMOVED_MAX_BYTES && removed.get(TENANT, &format!("299{long}")).is_some());
        assert!(removed.forget(TENANT, &format!("299{long}")));
        assert_eq!(removed.by_topic.len(), removed.by_version.len());
    }
}
