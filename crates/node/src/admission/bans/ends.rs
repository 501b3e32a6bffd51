//! The ends of bans that are remembered: found by target, and the oldest at once.

use std::collections::{BTreeMap, BTreeSet};

use super::BanTarget;

/// The remembered end of a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BanEnd {
    /// The time of the change that ended the ban, or of the ban that has expired, milliseconds since 1970. It orders
    /// changes of one ban.
    pub(crate) changed: u64,
    /// Time at which this node noted it, milliseconds since 1970; the note is kept for a while.
    pub(crate) noted: u64,
}

/// Ends that are remembered. Each call takes logarithmic time. Their number is bounded by the limit of bans.
#[derive(Debug, Default)]
pub(crate) struct BanEnds {
    by_target: BTreeMap<BanTarget, BanEnd>,
    /// The same, the oldest change first.
    by_age: BTreeSet<(BanEnd, BanTarget)>,
}

impl BanEnds {
    pub(super) fn len(&self) -> usize {
        self.by_target.len()
    }

    pub(super) fn get(&self, target: &BanTarget) -> Option<&BanEnd> {
        self.by_target.get(target)
    }

    pub(super) fn has(&self, target: &BanTarget) -> bool {
        self.by_target.contains_key(target)
    }

    /// The target whose ban ended first.
    pub(super) fn oldest(&self) -> Option<&BanTarget> {
        self.by_age.first().map(|(_, target)| target)
    }

    pub(super) fn insert(&mut self, target: BanTarget, end: BanEnd) {
        self.remove(&target);
        self.by_age.insert((end, target.clone()));
        self.by_target.insert(target, end);
    }

    /// Returns whether there was one.
    pub(super) fn remove(&mut self, target: &BanTarget) -> Option<BanEnd> {
        let end = self.by_target.remove(target)?;
        self.by_age.remove(&(end, target.clone()));
        Some(end)
    }

    /// All, in the order of their targets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&BanTarget, &BanEnd)> {
        self.by_target.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_engine::TenantId;

    use super::*;

    proptest! {
        #[test]
        fn the_oldest_end_is_that_of_a_scan(steps in prop::collection::vec((0_u8..20, 0_u64..50, any::<bool>()), 1..200)) {
            let mut ends = BanEnds::default();
            for (name, changed, insert) in steps {
                let target = BanTarget::Client(TenantId::DEFAULT, name.to_string().into());
                if insert {
                    ends.insert(target, BanEnd { changed, noted: changed / 2 });
                } else {
                    ends.remove(&target);
                }
                let scanned = ends.iter().min_by_key(|(target, end)| (**end, (*target).clone()));
                prop_assert_eq!(ends.oldest(), scanned.map(|(target, _)| target));
                prop_assert_eq!(ends.by_age.len(), ends.len());
            }
        }
    }
}
