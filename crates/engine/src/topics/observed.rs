//! The topics of observers: their filters, and the observers of a message.

use crate::ids::{ObserverId, TenantId};
use tidegate_mqtt::{TopicFilter, TopicName};

/// Some of the observers of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObserverSet(u32);

impl ObserverSet {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub(crate) fn with_if(self, wanted: bool, id: ObserverId) -> Self {
        Self(self.0 | u32::from(wanted) << id.0)
    }

    #[must_use]
    pub(crate) fn without(self, others: &[ObserverId]) -> Self {
        Self(others.iter().fold(self.0, |bits, id| bits & !(1 << id.0)))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = ObserverId> {
        (0..MAX_OBSERVERS as u8).filter(move |at| self.0 >> at & 1 != 0).map(ObserverId)
    }
}

/// The filters of all observers, as routes are made with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedTopics(Vec<(ObserverId, Option<TenantId>, Vec<String>)>);

impl ObservedTopics {
    pub(crate) fn new(filters: Vec<(ObserverId, Option<TenantId>, Vec<String>)>) -> Self {
        Self(filters)
    }

    /// The observers of a topic by their filters.
    pub(crate) fn observers_of(&self, tenant: TenantId, topic: &str) -> ObserverSet {
        let Ok(name) = TopicName::new(topic) else { return ObserverSet::default() };
        let matches = |filter: &String| TopicFilter::new(filter).is_ok_and(|filter| filter.matches(name));
        self.0.iter().fold(ObserverSet::default(), |set, (id, of, filters)| {
            set.with_if(of.is_none_or(|of| of == tenant) && filters.iter().any(matches), *id)
        })
    }
}

/// Observers of a shard at most, including the observers of the settings.
pub const MAX_OBSERVERS: usize = 32;
