//! Changes of the filters that brokers are asked for.

use std::collections::{BTreeMap, VecDeque};

use super::disjoint::CommonChange;
use crate::now::Millis;

/// How long a broker keeps a filter that another one has replaced, milliseconds: it may hold messages for it that it has not
/// sent. Until then it sends two copies of the messages that both match.
const KEPT_MS: u64 = 5_000;

/// A change of the wanted filters.
#[derive(Debug)]
pub(super) struct FilterChange<'a> {
    pub(super) filter: &'a str,
    pub(super) subscribe: bool,
    /// The resulting change at brokers that are asked for filters without overlap.
    pub(super) common: Option<CommonChange>,
}

impl FilterChange<'_> {
    /// Whether a wider filter covers one that is new.
    pub(super) fn is_covered(&self) -> bool {
        self.subscribe && self.common.as_ref().is_some_and(|common| common.begun.is_empty())
    }
}

/// Filters that others have replaced, until they are forgotten.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    /// The time at which each is forgotten.
    at: BTreeMap<Box<str>, Millis>,
    /// The same in the order of time. Filters that are wanted again remain here until then.
    order: VecDeque<(Millis, Box<str>)>,
}

impl Replaced {
    /// When the first one is to be forgotten, at the earliest.
    pub(super) fn due(&self) -> Millis {
        self.order.front().map_or(Millis::NEVER, |(at, _)| *at)
    }

    pub(super) fn add(&mut self, now: Millis, filter: Box<str>) {
        let at = now.plus(KEPT_MS);
        self.at.insert(filter.clone(), at);
        self.order.push_back((at, filter));
    }

    /// A filter is wanted again. Returns whether it was replaced.
    pub(super) fn forget(&mut self, filter: &str) -> bool {
        self.at.remove(filter).is_some()
    }

    /// The broker holds no filters.
    pub(super) fn clear(&mut self) {
        (self.at, self.order) = Default::default();
    }

    pub(super) fn pop_due(&mut self, now: Millis) -> Option<Box<str>> {
        while self.due() <= now {
            let (at, filter) = self.order.pop_front()?;
            if self.at.get(&filter) == Some(&at) {
                self.at.remove(&filter);
                return Some(filter);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_filter_is_forgotten_unless_it_is_wanted_again() {
        let mut replaced = Replaced::default();
        for (ms, filter) in [(0, "a"), (1, "b"), (2, "c")] {
            replaced.add(Millis(ms), filter.into());
        }
        assert!(replaced.forget("b") && !replaced.forget("b"));
        assert_eq!((replaced.due(), replaced.pop_due(Millis(KEPT_MS - 1))), (Millis(KEPT_MS), None));
        replaced.forget("a");
        replaced.add(Millis(3), "a".into());
        assert_eq!(replaced.pop_due(Millis(KEPT_MS + 2)).as_deref(), Some("c"));
        assert_eq!(replaced.pop_due(Millis(KEPT_MS + 2)), None, "a begins again");
        assert_eq!(replaced.pop_due(Millis(KEPT_MS + 3)).as_deref(), Some("a"));
        assert_eq!(replaced.due(), Millis::NEVER);
    }
}
