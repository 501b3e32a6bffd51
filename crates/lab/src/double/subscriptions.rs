//! Subscriptions of clients.

use std::collections::{BTreeMap, HashMap};

use tidegate_mqtt::{QoS, TopicFilter, TopicName};

/// Subscriptions of clients.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    exact: HashMap<String, BTreeMap<u32, QoS>>,
    wild: BTreeMap<String, BTreeMap<u32, QoS>>,
    /// By `$share/group/filter`; members take turns.
    shared: BTreeMap<String, Turns>,
}

#[derive(Debug, Default)]
struct Turns {
    filter: String,
    members: Vec<(u32, QoS)>,
    next: usize,
}

impl Subscriptions {
    pub(super) fn add(&mut self, connection: u32, filter: TopicFilter<'_>, qos: QoS) {
        if let Some((_, proper)) = filter.shared() {
            let turns = self.shared.entry(filter.as_str().to_owned()).or_default();
            proper.as_str().clone_into(&mut turns.filter);
            turns.members.push((connection, qos));
        } else if filter.has_wildcards() {
            self.wild.entry(filter.as_str().to_owned()).or_default().insert(connection, qos);
        } else {
            self.exact.entry(filter.as_str().to_owned()).or_default().insert(connection, qos);
        }
    }

    pub(super) fn remove(&mut self, connection: u32) {
        for wanting in self.exact.values_mut().chain(self.wild.values_mut()) {
            wanting.remove(&connection);
        }
        for turns in self.shared.values_mut() {
            turns.members.retain(|(member, _)| *member != connection);
        }
    }

    /// The receivers of a message, each with its highest QoS.
    pub(super) fn wanting(&mut self, topic: TopicName<'_>) -> Vec<(u32, QoS)> {
        let mut found: BTreeMap<u32, QoS> = self.exact.get(topic.as_str()).cloned().unwrap_or_default();
        for (filter, wanting) in &self.wild {
            if TopicFilter::new(filter).is_ok_and(|filter| filter.matches(topic)) {
                found.extend(wanting);
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        for turns in self.shared.values_mut().filter(|turns| !turns.members.is_empty()) {
            if TopicFilter::new(&turns.filter).is_ok_and(|filter| filter.matches(topic)) {
                turns.next = (turns.next + 1) % turns.members.len();
                found.push(turns.members[turns.next]);
            }
        }
        found
    }
}
