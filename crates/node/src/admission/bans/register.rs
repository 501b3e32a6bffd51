//! Bans of operators that all nodes of a cluster share: of two changes of one ban the later one holds, on every node,
//! in whichever order they arrive. An end is remembered for a while, so that a node that was away and still has the ban
//! ends it, too.

use tidegate_engine::Now;

use super::record::encode_end;
use super::{Ban, BanChange, BanError, BanOrigin, BanTarget, Bans, MAX_BAN_TEXT, key_of};

/// How long the end of a ban is remembered, milliseconds: 30 days. A node that was away for longer may bring the ban
/// back.
const END_KEPT_MS: u64 = 30 * 24 * 3600 * 1000;

/// A change of a ban that all nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanRecord {
    /// Who is banned, or was.
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
        let ended = self.ended.get(target).map(|at| (*at, true));
        ban.map(|ban| (ban.since, false)).max(ended)
    }

    /// The time of the next change of a ban: now, or just behind a change by a node whose clock is ahead.
    pub(crate) fn next_change(&self, now: Now, target: &BanTarget) -> u64 {
        self.last_change(target).map_or(now.unix, |(last, _)| now.unix.max(last + 1))
    }

    /// Takes a change in, unless a later one is known. Says whether it changed anything.
    pub(crate) fn apply(&mut self, now: Now, record: BanRecord) -> Result<bool, BanError> {
        self.expire(now);
        let BanRecord { target, changed, ban } = record;
        if self.last_change(&target).is_some_and(|known| known >= (changed, ban.is_none())) {
            return Ok(false);
        }
        match ban {
            Some(ban) => {
                self.add(now, Ban { origin: BanOrigin::Operator, since: changed, ..ban })?;
                self.ended.remove(&target);
                Ok(true)
            }
            None if target.name().len() > MAX_BAN_TEXT => Err(BanError::TooLong),
            None => {
                let there_was_one = self.remove(now, &target)?;
                self.remember_end(target, changed);
                Ok(there_was_one)
            }
        }
    }

    /// Remembers an end, in place of the oldest one when there are as many as bans may be.
    pub(super) fn remember_end(&mut self, target: BanTarget, at: u64) {
        if self.ended.len() >= self.limit.max(1)
            && let Some(oldest) = self.ended.iter().min_by_key(|(_, at)| **at).map(|(target, _)| target.clone())
        {
            self.forget_end(&oldest);
        }
        let (key, value) = encode_end(&target, at);
        self.tell(&BanChange::Put { key, value });
        self.ended.insert(target, at);
    }

    fn forget_end(&mut self, target: &BanTarget) {
        if self.ended.remove(target).is_some() && !self.by_target.contains_key(target) {
            self.tell(&BanChange::Delete { key: key_of(target) });
        }
    }

    /// Takes an end in that was kept over a restart.
    pub(crate) fn restore_end(&mut self, target: BanTarget, at: u64) {
        if self.ended.len() < self.limit {
            self.ended.insert(target, at);
        }
    }

    /// All that other nodes have to know: bans of operators, and ends that are remembered.
    pub(crate) fn records(&mut self, now: Now) -> Vec<BanRecord> {
        self.expire(now);
        let old: Vec<BanTarget> = self
            .ended
            .iter()
            .filter(|(_, at)| at.saturating_add(END_KEPT_MS) < now.unix)
            .map(|(target, _)| target.clone())
            .collect();
        for target in &old {
            self.forget_end(target);
        }
        let bans = self.by_target.values().filter(|ban| ban.origin == BanOrigin::Operator);
        let bans = bans.map(|ban| BanRecord { target: ban.target.clone(), changed: ban.since, ban: Some(ban.clone()) });
        let ends = self.ended.iter().map(|(target, at)| BanRecord { target: target.clone(), changed: *at, ban: None });
        let mut all: Vec<BanRecord> = bans.chain(ends).collect();
        all.sort_by(|one, other| one.target.cmp(&other.target));
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_engine::{Millis, TenantId};

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
        let (key, value) = encode_end(&client("c"), NOW.unix + 1);
        assert_eq!(super::super::record::decode_end(&key, &value), Some((client("c"), NOW.unix + 1)));
        let later = Now { unix: NOW.unix + END_KEPT_MS + 2, ..NOW };
        assert!(bans.records(later).is_empty());
    }

    proptest! {
        /// Whatever order changes arrive in, and however often, all nodes come to the same bans.
        #[test]
        fn changes_come_to_the_same_in_any_order(
            changes in prop::collection::vec((0_usize..3, 0_u64..6, any::<bool>()), 0..12), seed in any::<u64>(),
        ) {
            let records: Vec<BanRecord> =
                changes.iter().map(|(who, at, banned)| record(["a", "b", "c"][*who], NOW.unix + at, *banned)).collect();
            let mut shuffled = records.clone();
            let len = shuffled.len().max(1);
            for at in 0..shuffled.len() {
                shuffled.swap(at, (seed as usize).wrapping_mul(at + 7) % len);
            }
            let (mut one, mut other) = (Bans::new(10), Bans::new(10));
            for record in records {
                one.apply(NOW, record).unwrap();
            }
            for record in shuffled.iter().chain(&shuffled) {
                other.apply(NOW, record.clone()).unwrap();
            }
            prop_assert_eq!(one.records(NOW), other.records(NOW));
            prop_assert_eq!(one.list(NOW), other.list(NOW));
        }
    }
}
