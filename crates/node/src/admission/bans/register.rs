//! Bans of operators that all nodes of a cluster share: of two changes of one ban the later one holds on every node, in
//! any order of arrival. An end is remembered for a while, so that a node that was away and still has the ban ends it,
//! too.

use tidegate_engine::Now;

use super::record::{encode_end, key_of_end};
use super::{Ban, BanChange, BanEnd, BanError, BanOrigin, BanTarget, Bans, MAX_BAN_TEXT};

/// How long the end of a ban is remembered, milliseconds: 30 days. A node that was away for longer may bring the ban
/// back.
const END_KEPT_MS: u64 = 30 * 24 * 3600 * 1000;

/// A change of a ban that all nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanRecord {
    /// The subject of the ban, in force or ended.
    pub target: BanTarget,
    /// When it was changed, milliseconds since 1970. It orders changes of one ban.
    pub changed: u64,
    /// The ban; `None` when it has ended.
    pub ban: Option<Ban>,
}

impl Bans {
    /// When the ban of a target was changed by an operator last, and whether that was its end.
    fn last_change(&self, target: &BanTarget) -> Option<(u64, bool)> {
        let ban = self.by_target.get(target).filter(|ban| ban.origin == BanOrigin::Operator);
        let ended = self.ended.get(target).map(|end| (end.changed, true));
        ban.map(|ban| (ban.since, false)).max(ended)
    }

    /// The time of the next change of a ban: now, or just behind a change by a node whose clock is ahead.
    pub(crate) fn next_change(&self, now: Now, target: &BanTarget) -> u64 {
        self.last_change(target).map_or(now.unix, |(last, _)| now.unix.max(last + 1))
    }

    /// Applies a change, unless a later one is known. Returns whether it changed anything.
    pub(crate) fn apply(&mut self, now: Now, record: BanRecord) -> Result<bool, BanError> {
        self.expire(now);
        let BanRecord { target, changed, ban } = record;
        if self.last_change(&target).is_some_and(|known| known >= (changed, ban.is_none())) {
            return Ok(false);
        }
        match ban {
            Some(ban) => {
                self.add(now, Ban { origin: BanOrigin::Operator, since: changed, ..ban })?;
                self.forget_end(&target);
                // One that has ended on its way holds against older ones, too.
                self.expire(now);
                Ok(true)
            }
            None if target.name().len() > MAX_BAN_TEXT => Err(BanError::TooLong),
            None => {
                // First, so that it is kept when the ban itself stays, or the process ends in between.
                self.remember_end(now, &target, changed);
                self.remove(now, &target)
            }
        }
    }

    /// Remembers an end, in place of the oldest one when there are as many as bans may be.
    pub(super) fn remember_end(&mut self, now: Now, target: &BanTarget, changed: u64) {
        if self.ended.get(target).is_some_and(|known| known.changed >= changed) {
            return;
        }
        while self.ended.len() >= self.limit.max(1)
            && !self.ended.has(target)
            && let Some(oldest) = self.ended.oldest().cloned()
        {
            self.forget_end(&oldest);
        }
        let end = BanEnd { changed, noted: now.unix };
        let (key, value) = encode_end(target, end);
        self.tell(&BanChange::Put { key, value });
        self.ended.insert(target.clone(), end);
    }

    fn forget_end(&mut self, target: &BanTarget) {
        if self.ended.remove(target).is_some() {
            self.tell(&BanChange::Delete { key: key_of_end(target) });
        }
    }

    /// Takes an end in that was kept under a key over a restart. One under the key of its ban, as earlier versions wrote
    /// it, gets its own.
    pub(crate) fn restore_end(&mut self, key: &[u8], target: BanTarget, end: BanEnd) {
        let (own, value) = encode_end(&target, end);
        let is_newer = self.ended.get(&target).is_none_or(|known| known.changed < end.changed);
        let is_kept = is_newer && (self.ended.len() < self.limit || self.ended.has(&target));
        if key != own.as_slice() {
            if is_kept {
                self.tell(&BanChange::Put { key: own, value });
            }
            self.tell(&BanChange::Delete { key: key.to_vec() });
        }
        if is_kept {
            self.ended.insert(target, end);
        }
    }

    /// All that other nodes have to know: bans of operators, and ends that are remembered.
    pub(crate) fn records(&mut self, now: Now) -> Vec<BanRecord> {
        self.expire(now);
        let old: Vec<BanTarget> = self
            .ended
            .iter()
            .filter(|(_, end)| end.noted.saturating_add(END_KEPT_MS) < now.unix)
            .map(|(target, _)| target.clone())
            .collect();
        for target in &old {
            self.forget_end(target);
        }
        let bans = self.by_target.values().filter(|ban| ban.origin == BanOrigin::Operator);
        let bans = bans.map(|ban| BanRecord { target: ban.target.clone(), changed: ban.since, ban: Some(ban.clone()) });
        let ends = self.ended.iter();
        let ends = ends.map(|(target, end)| BanRecord { target: target.clone(), changed: end.changed, ban: None });
        let mut all: Vec<BanRecord> = bans.chain(ends).collect();
        all.sort_by(|one, other| one.target.cmp(&other.target));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use tidegate_engine::{Millis, TenantId};

    use super::super::record::decode_end;
    use super::*;

    const NOW: Now = Now { monotonic: Millis(1_000_000), unix: 1_700_000_000_000 };

    fn client(name: &str) -> BanTarget {
        BanTarget::Client(TenantId::DEFAULT, name.into())
    }

    fn record(name: &str, changed: u64, banned: bool) -> BanRecord {
        let ban = Ban {
            target: client(name),
            reason: format!("at {changed}").into(),
            origin: BanOrigin::Operator,
            since: changed,
            until: Millis::NEVER,
        };
        BanRecord { target: client(name), changed, ban: banned.then_some(ban) }
    }

    #[test]
    fn an_end_holds_against_an_older_ban() {
        let mut bans = Bans::new(4);
        assert_eq!(bans.apply(NOW, record("c", NOW.unix + 5, true)), Ok(true));
        assert_eq!(bans.apply(NOW, record("c", NOW.unix + 7, false)), Ok(true));
        assert_eq!(bans.apply(NOW, record("c", NOW.unix + 6, true)), Ok(false));
        assert!(bans.list(NOW).is_empty());
        assert_eq!(bans.records(NOW), [record("c", NOW.unix + 7, false)]);
        assert_eq!(bans.next_change(NOW, &client("c")), NOW.unix + 8);
    }

    #[test]
    fn an_end_is_stored_and_forgotten_in_time() {
        let mut bans = Bans::new(4);
        bans.apply(NOW, record("c", NOW.unix, true)).unwrap();
        bans.apply(NOW, record("c", NOW.unix + 1, false)).unwrap();
        let end = BanEnd { changed: NOW.unix + 1, noted: NOW.unix };
        let (key, value) = encode_end(&client("c"), end);
        assert_eq!(decode_end(&key, &value), Some((client("c"), end)));
        let earlier = (super::super::key_of(&client("c")), [&[2][..], &7_u64.to_be_bytes()].concat());
        assert_eq!(decode_end(&earlier.0, &earlier.1), Some((client("c"), BanEnd { changed: 7, noted: 7 })));
        let later = Now { unix: NOW.unix + END_KEPT_MS + 2, ..NOW };
        assert!(bans.records(later).is_empty());
    }

    /// The same as [`record`], for a ban with a duration in milliseconds.
    fn ending(name: &str, changed: u64, after: u64) -> BanRecord {
        let mut record = record(name, changed, true);
        record.ban.as_mut().unwrap().until = NOW.monotonic.plus(after);
        record
    }

    fn later(after: u64) -> Now {
        Now { monotonic: NOW.monotonic.plus(after), unix: NOW.unix + after }
    }

    #[test]
    fn a_ban_that_has_expired_holds_against_an_older_one() {
        let mut bans = Bans::new(4);
        bans.apply(NOW, record("c", NOW.unix, true)).unwrap();
        bans.apply(NOW, ending("c", NOW.unix + 1, 1_000)).unwrap();
        assert!(bans.list(later(2_000)).is_empty());
        // A node was away and has the older one.
        assert_eq!(bans.apply(later(2_000), record("c", NOW.unix, true)), Ok(false));
        assert_eq!(bans.records(later(2_000)), [record("c", NOW.unix + 1, false)]);
        // The newer ban came after its own end.
        let mut bans = Bans::new(4);
        bans.apply(later(2_000), ending("c", NOW.unix + 1, 1_000)).unwrap();
        assert_eq!(bans.apply(later(2_000), record("c", NOW.unix, true)), Ok(false));
        let weeks = 40 * 24 * 3600 * 1000;
        let mut bans = Bans::new(4);
        bans.apply(NOW, ending("c", NOW.unix + 1, weeks)).unwrap();
        assert_eq!(bans.records(later(weeks)).len(), 1, "the end is kept from when it came");
    }

    #[test]
    fn a_stored_end_outlives_an_automatic_ban() {
        let kept: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>> = Arc::default();
        let notes = Arc::clone(&kept);
        let mut bans = Bans::new(4);
        bans.on_change(Box::new(move |change| {
            let mut kept = notes.lock().unwrap();
            match change.clone() {
                BanChange::Put { key, value } => drop(kept.insert(key, value)),
                BanChange::Delete { key } => drop(kept.remove(&key)),
            }
        }));
        bans.apply(NOW, record("c", NOW.unix, true)).unwrap();
        bans.apply(NOW, record("c", NOW.unix + 1, false)).unwrap();
        let automatic = Ban { origin: BanOrigin::Flapping, ..ending("c", NOW.unix + 2, 1_000).ban.unwrap() };
        bans.add(NOW, automatic).unwrap();
        bans.expire(later(2_000));
        // After a restart.
        let mut bans = Bans::new(4);
        for (key, value) in kept.lock().unwrap().iter() {
            let (target, end) = decode_end(key, value).expect("only the end is kept");
            bans.restore_end(key, target, end);
        }
        assert_eq!(bans.apply(later(2_000), record("c", NOW.unix, true)), Ok(false));
    }

    #[test]
    fn an_end_is_remembered_where_the_configuration_bans() {
        let mut bans = Bans::new(4);
        bans.configure(NOW, vec![client("c")]);
        assert_eq!(bans.apply(NOW, record("c", NOW.unix + 1, false)), Err(BanError::Configured));
        bans.configure(NOW, Vec::new());
        assert_eq!(bans.apply(NOW, record("c", NOW.unix, true)), Ok(false));
    }

    proptest! {
        /// Whatever order changes arrive in, and however often, all nodes come to the same bans.
        #[test]
        fn changes_come_to_the_same_in_any_order(
            changes in prop::collection::vec((0_usize..3, 0_u64..6, 0_u8..3), 0..12), seed in any::<u64>(),
        ) {
            let change = |(who, at, kind): &(usize, u64, u8)| {
                let (name, at) = (["a", "b", "c"][*who], NOW.unix + at);
                // Of the changes of one time, bans that end and others would be two different ones.
                if *kind == 2 && at % 2 == 0 { ending(name, at, 5) } else { record(name, at, *kind == 1 && at % 2 == 1) }
            };
            let records: Vec<BanRecord> = changes.iter().map(change).collect();
            let mut shuffled = records.clone();
            let len = shuffled.len().max(1);
            for at in 0..shuffled.len() {
                shuffled.swap(at, (seed as usize).wrapping_mul(at + 7) % len);
            }
            let (mut one, mut other) = (Bans::new(10), Bans::new(10));
            for (now, record) in (0..).zip(records) {
                one.apply(later(now), record).unwrap();
            }
            for (now, record) in (0..).zip(shuffled.iter().chain(&shuffled)) {
                other.apply(later(now), record.clone()).unwrap();
            }
            let now = later(100);
            prop_assert_eq!(one.records(now), other.records(now));
            prop_assert_eq!(one.list(now), other.list(now));
        }
    }
}
