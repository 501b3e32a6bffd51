//! Decisions that are remembered for a while, so that clients that all return at once need not all be hashed again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::decision::{Decision, RefusalKind};
use crate::settings::CacheSettings;

/// A keyed hash of everything that a decision depends on. Without this process's key it reveals nothing.
pub(super) type CacheKey = [u8; 32];

/// The remembered decisions: accepted and refused clients, apart from each other.
#[derive(Debug, Default)]
pub(super) struct Cache {
    settings: CacheSettings,
    allowed: Generation,
    refused: Generation,
}

impl Cache {
    pub(super) fn new(settings: CacheSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The decision, if it is remembered.
    pub(super) fn get(&self, key: &CacheKey, now_ms: u64) -> Option<Decision> {
        self.allowed.get(key, now_ms).or_else(|| self.refused.get(key, now_ms)).cloned()
    }

    /// Remembers a decision, unless it may change at any time.
    pub(super) fn put(&mut self, key: CacheKey, decision: &Decision, at: Moment, limit: Option<Duration>) {
        let settings = self.settings;
        match decision {
            Decision::Allow(identity) => {
                let token = identity.expires_at.map(|expiry| Duration::from_millis(expiry.saturating_sub(at.unix_ms)));
                let ttl = [limit, token].into_iter().flatten().fold(settings.ttl, Duration::min);
                self.allowed.put(key, decision, at.monotonic_ms, ttl, settings.entries);
            }
            Decision::Deny(refusal) if refusal.kind != RefusalKind::Unavailable => {
                let ttl = limit.unwrap_or(settings.refused_ttl).min(settings.refused_ttl);
                self.refused.put(key, decision, at.monotonic_ms, ttl, settings.refused_entries);
            }
            Decision::Deny(_) | Decision::Ignore => {}
        }
    }

    /// The number of entries, expired ones included.
    pub(super) fn len(&self) -> usize {
        self.allowed.entries.len() + self.refused.entries.len()
    }
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) monotonic_ms: u64,
    pub(super) unix_ms: u64,
}

/// Entries; the oldest is evicted first.
#[derive(Debug, Default)]
struct Generation {
    entries: HashMap<CacheKey, Entry>,
    /// In the order of insertion. A key occurs once for each time that it was put.
    order: VecDeque<(CacheKey, u64)>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    decision: Decision,
    until_ms: u64,
    number: u64,
}

impl Generation {
    fn get(&self, key: &CacheKey, now_ms: u64) -> Option<&Decision> {
        self.entries.get(key).filter(|entry| now_ms < entry.until_ms).map(|entry| &entry.decision)
    }

    fn put(&mut self, key: CacheKey, decision: &Decision, now_ms: u64, ttl: Duration, bound: usize) {
        if ttl.is_zero() || bound == 0 {
            return;
        }
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let number = self.next;
        self.next += 1;
        let entry = Entry { decision: decision.clone(), until_ms: now_ms.saturating_add(ttl_ms), number };
        self.entries.insert(key, entry);
        self.order.push_back((key, number));
        // The old position of a key that was put again frees no entry, so the bound is on positions.
        while self.order.len() > bound {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((key, number)) = self.order.pop_front()
            && self.entries.get(&key).is_some_and(|entry| entry.number == number)
        {
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Identity, Refusal};

    const START: Moment = Moment { monotonic_ms: 0, unix_ms: 1_000_000 };

    fn key(number: u8) -> CacheKey {
        [number; 32]
    }

    fn allow(expires_at: Option<u64>) -> Decision {
        Decision::Allow(Identity { expires_at, ..Identity::default() })
    }

    fn cache() -> Cache {
        Cache::new(CacheSettings {
            entries: 3,
            ttl: Duration::from_secs(10),
            refused_entries: 2,
            refused_ttl: Duration::from_secs(1),
        })
    }

    #[test]
    fn the_oldest_of_too_many_makes_room() {
        let mut cache = cache();
        for number in 0..4 {
            cache.put(key(number), &allow(None), START, None);
        }
        assert_eq!(cache.get(&key(0), 1), None);
        assert!((1..4).all(|number| cache.get(&key(number), 1).is_some()));
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn a_key_that_is_put_again_and_again_stays_within_the_bound() {
        let mut cache = cache();
        for _ in 0..100 {
            cache.put(key(1), &allow(None), START, None);
        }
        assert!(cache.allowed.order.len() <= 3);
        assert!(cache.get(&key(1), 1).is_some());
    }

    #[test]
    fn refusals_do_not_displace_accepted_clients() {
        let mut cache = cache();
        cache.put(key(0), &allow(None), START, None);
        let refusal = Decision::Deny(Refusal::by_chain(RefusalKind::BadCredentials, "x"));
        for number in 1..100 {
            cache.put(key(number), &refusal, START, None);
        }
        assert!(cache.get(&key(0), 1).is_some());
        assert_eq!(cache.len(), 3);
        assert_eq!(cache.get(&key(99), 999), Some(refusal));
        assert_eq!(cache.get(&key(99), 1000), None);
    }

    #[test]
    fn no_decision_is_cached_beyond_its_token_or_provider() {
        let mut cache = cache();
        cache.put(key(0), &allow(Some(START.unix_ms + 500)), START, None);
        cache.put(key(1), &allow(None), START, Some(Duration::from_millis(200)));
        cache.put(key(2), &allow(Some(START.unix_ms - 1)), START, None);
        assert!(cache.get(&key(0), 499).is_some());
        assert_eq!(cache.get(&key(0), 500), None);
        assert!(cache.get(&key(1), 199).is_some());
        assert_eq!(cache.get(&key(1), 200), None);
        assert_eq!(cache.get(&key(2), 0), None);
    }

    #[test]
    fn an_unavailable_answer_is_not_cached() {
        let mut cache = cache();
        let refusal = Decision::Deny(Refusal::by_chain(RefusalKind::Unavailable, "x"));
        cache.put(key(0), &refusal, START, None);
        assert_eq!(cache.len(), 0);
    }
}
