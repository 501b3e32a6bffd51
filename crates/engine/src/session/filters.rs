//! The subscriptions of a session.

use std::collections::BTreeSet;

use crate::topics::FilterKey;

/// A session's ordinary subscriptions, by their place in the index. One needs no heap.
#[derive(Debug, Default)]
pub(crate) struct FilterList {
    one: Option<FilterKey>,
    /// Most sessions have one subscription, and pay one pointer for this.
    rest: Option<Box<MoreFilters>>,
}

/// The filters beside the first. Finding one takes logarithmic time where there are many.
#[derive(Debug)]
enum MoreFilters {
    Few(Vec<FilterKey>),
    Many(BTreeSet<FilterKey>),
}

/// Filters that are kept in a list.
const FEW_FILTERS: usize = 64;

impl Default for MoreFilters {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl MoreFilters {
    fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many(set) => set.len(),
        }
    }

    fn push(&mut self, filter: FilterKey) {
        match self {
            Self::Few(list) if list.len() < FEW_FILTERS => list.push(filter),
            Self::Few(list) => {
                let mut set: BTreeSet<_> = list.iter().copied().collect();
                set.insert(filter);
                *self = Self::Many(set);
            }
            Self::Many(set) => {
                set.insert(filter);
            }
        }
    }

    fn pop(&mut self) -> Option<FilterKey> {
        match self {
            Self::Few(list) => list.pop(),
            Self::Many(set) => set.pop_last(),
        }
    }

    fn remove(&mut self, filter: FilterKey) {
        match self {
            Self::Few(list) => list.retain(|other| *other != filter),
            Self::Many(set) => {
                set.remove(&filter);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = FilterKey> + '_ {
        let (list, set) = match self {
            Self::Few(list) => (Some(list), None),
            Self::Many(set) => (None, Some(set)),
        };
        list.into_iter().flatten().chain(set.into_iter().flatten()).copied()
    }
}

impl FilterList {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.one.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    pub(crate) fn push(&mut self, filter: FilterKey) {
        if self.one.is_none() {
            self.one = Some(filter);
        } else {
            self.rest.get_or_insert_default().push(filter);
        }
    }

    pub(crate) fn remove(&mut self, filter: FilterKey) {
        if self.one == Some(filter) {
            self.one = self.rest.as_mut().and_then(|rest| rest.pop());
        } else if let Some(rest) = &mut self.rest {
            rest.remove(filter);
        }
        if self.rest.as_ref().is_some_and(|rest| rest.len() == 0) {
            self.rest = None;
        }
    }

    /// Takes any of them out.
    pub(crate) fn pop(&mut self) -> Option<FilterKey> {
        let filter = self.rest.as_mut().and_then(|rest| rest.pop()).or_else(|| self.one.take());
        if self.rest.as_ref().is_some_and(|rest| rest.len() == 0) {
            self.rest = None;
        }
        filter
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = FilterKey> + '_ {
        self.one.into_iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }
}
