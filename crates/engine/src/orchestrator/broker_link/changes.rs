//! Changes of the filters that brokers are asked for.

use std::collections::VecDeque;

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

/// Filters that others have replaced, in the order in which they are forgotten.
#[derive(Debug, Default)]
pub(super) struct Replaced(VecDeque<(Millis, Box<str>)>);

impl Replaced {
    /// When the first one is to be forgotten.
    pub(super) fn due(&self) -> Millis {
        self.0.front().map_or(Millis::NEVER, |(at, _)| *at)
    }

    pub(super) fn add(&mut self, now: Millis, filter: Box<str>) {
        self.0.push_back((now.plus(KEPT_MS), filter));
    }

    /// A filter is wanted again. Returns whether it was replaced.
    pub(super) fn forget(&mut self, filter: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, other)| **other != *filter);
        self.0.len() < before
    }

    /// The broker holds no filters.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn pop_due(&mut self, now: Millis) -> Option<Box<str>> {
        if self.due() > now { None } else { self.0.pop_front().map(|(_, filter)| filter) }
    }
}
