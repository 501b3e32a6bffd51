//! Brokers of MQTT 3.1.1 that send a copy of a message for each filter are asked for filters without overlap.

use std::collections::BTreeMap;

use super::asking::Change;
use super::changes::FilterChange;
use super::disjoint::CommonChange;
use super::filters::{FilterSync, GONE_MAX, WantedFilters};
use super::{BrokerLink, FleetConfig, Stage};
use crate::now::Millis;

impl FleetConfig {
    /// Whether brokers of MQTT 3.1.1 are asked for filters without overlap. Where brokers decide on the rights of clients, each
    /// filter is asked for alone.
    pub(super) fn merges_filters(&self) -> bool {
        self.settings().is_some_and(|settings| settings.merge_filters) && !self.brokers_decide()
    }
}

impl WantedFilters {
    /// A filter is wanted from now on, or no more.
    pub(super) fn change_common(&mut self, filter: &str, present: bool) -> CommonChange {
        let disjoint = self.disjoint.get_or_insert_default();
        if present { disjoint.add(filter) } else { disjoint.remove(&self.filters, filter) }
    }

    /// Whether a broker is asked for common filters.
    pub(super) fn are_common(&self, broker_link: &BrokerLink) -> bool {
        self.disjoint.is_some() && !broker_link.version.is_v5()
    }

    /// The filters that a broker is asked for.
    pub(super) fn at(&self, broker_link: &BrokerLink) -> &BTreeMap<Box<str>, u64> {
        match &self.disjoint {
            Some(disjoint) if self.are_common(broker_link) => disjoint.common(),
            _ => &self.filters,
        }
    }
}

impl BrokerLink {
    /// Takes a change of the wanted filters. Returns whether the broker is asked, or `None` where its filters stay as they are: it
    /// is not asked for a filter that ends its connections.
    pub(super) fn take_change(&mut self, now: Millis, change: &FilterChange<'_>, wait: u64) -> Option<bool> {
        let FilterChange { filter, subscribe, common } = change;
        if self.stage != Stage::Open {
            for filter in common.iter().flat_map(|common| &common.begun) {
                self.filters.replaced.forget(filter);
            }
            let ended = common.iter().flat_map(|common| &common.ended).map(|filter| &**filter);
            let ended = ended.chain(Some(*filter).filter(|_| !subscribe));
            let room = GONE_MAX.saturating_sub(self.filters.gone.len());
            self.filters.gone.extend(ended.take(room).map(Box::from));
            return None;
        }
        match common {
            Some(common) if !self.version.is_v5() => self.filters.queue_common(now, common, wait),
            _ => Some(self.filters.queue_change(filter, *subscribe, wait)),
        }
    }
}

impl FilterSync {
    /// Queues the end of filters that others have replaced some time ago. Returns whether there are any.
    pub(super) fn end_replaced(&mut self, now: Millis) -> bool {
        let mut any = false;
        while let Some(filter) = self.replaced.pop_due(now) {
            any |= self.queue_change(&filter, false, 0);
        }
        any
    }

    /// Queues a change of one filter; false if the filter ends connections.
    fn queue_change(&mut self, filter: &str, subscribe: bool, wait: u64) -> bool {
        let was_refused = !subscribe && self.refused.remove(filter);
        if self.ending.is_known(filter) {
            if subscribe {
                self.refused.insert(filter.into());
            }
            return false;
        }
        self.not_held.extend(was_refused.then(|| filter.into()));
        self.queue.push_back(Change { filter: filter.into(), subscribe, wait });
        true
    }

    /// Queues a change of the common filters; the last one ends the wait. New filters are asked for before others end.
    fn queue_common(&mut self, now: Millis, change: &CommonChange, wait: u64) -> Option<bool> {
        let mut asked = None;
        for filter in &change.begun {
            // The broker still holds one that was replaced a moment ago.
            if !self.replaced.forget(filter) {
                asked = Some(self.queue_change(filter, true, 0) | asked.unwrap_or_default());
            }
        }
        for filter in &change.ended {
            if change.begun.is_empty() {
                asked = Some(self.queue_change(filter, false, 0) | asked.unwrap_or_default());
            } else {
                self.replaced.add(now, filter.clone());
            }
        }
        if let Some(last) = self.queue.back_mut().filter(|_| asked == Some(true)) {
            last.wait = wait;
        }
        asked
    }
}
