//! Retained values that were removed, while brokers may still have them.
//!
//! A removal reaches the broker that has the value some time after it was acknowledged. What is subscribed to meanwhile
//! would bring the removed value back, if nobody remembered that it is gone.

use crate::orchestrator::uplink::uplinking::Uplinking;
use std::collections::{BTreeMap, VecDeque};

use super::receive::version_of;
use crate::ids::{SessionKey, TenantId, partition_of};
use crate::message::MessageRef;
use crate::now::Now;
use crate::publish::dispatch::{Source, reach};
use crate::settings::fleet_topics::owner_of;

/// Removals remembered by one shard; the oldest make room. A removal is under way for milliseconds, or as long as a
/// broker is away.
const REMOVALS_MAX: usize = 65_536;

/// The topics whose retained value was removed last, with the version of the removal.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    versions: BTreeMap<Box<str>, u64>,
    /// In the order in which they came; some may have been overtaken since.
    order: VecDeque<(Box<str>, u64)>,
}

impl Removals {
    /// Notes that a topic's value was removed.
    pub(super) fn note(&mut self, topic: &str, version: u64) {
        self.versions.insert(topic.into(), version);
        self.order.push_back((topic.into(), version));
        while self.order.len() > REMOVALS_MAX {
            if let Some((oldest, version)) = self.order.pop_front()
                && self.versions.get(&oldest) == Some(&version)
            {
                self.versions.remove(&oldest);
            }
        }
    }

    /// Whether a value is older than the removal of its topic's.
    pub(super) fn outdate(&self, topic: &str, version: u64) -> bool {
        self.versions.get(topic).is_some_and(|removed| *removed >= version)
    }

    /// A topic has a value again.
    pub(super) fn forget(&mut self, topic: &str) {
        self.versions.remove(topic);
    }
}

impl Uplinking<'_> {
    /// The removals among what a restored session owes its broker are remembered again.
    pub(crate) fn remember_removals(&mut self, now: Now, session: SessionKey) {
        let Some(flow) = self.desk.sessions.get(session.0).and_then(|session| session.flow.as_ref()) else { return };
        let sent = flow.inflight.iter().filter_map(|entry| entry.item.delivery.as_ref());
        let owed = sent.chain(&flow.queue).filter(|owed| owed.message.retain && owed.message.payload().is_empty());
        let removals: Vec<MessageRef> = owed.map(|owed| owed.message.clone()).collect();
        for removal in removals {
            let mut publication = removal.publication();
            let (tenant, topic) = owner_of(self.settings, TenantId::UPLINK, publication.topic);
            let home = self.place.home_of(partition_of(tenant, topic));
            if home == self.place.shard {
                let version = version_of(publication.properties);
                self.uplinks.settlement.removals.note(publication.topic, version);
            } else {
                let source = Source::inside(self.place.shard, now);
                reach!(self).send_to_home(&mut publication, &source, home);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_outdates_what_came_before_it_until_there_is_a_newer_value() {
        let mut removals = Removals::default();
        removals.note("a", 5);
        assert!(removals.outdate("a", 5) && removals.outdate("a", 0));
        assert!(!removals.outdate("a", 6) && !removals.outdate("b", 1));
        removals.forget("a");
        assert!(!removals.outdate("a", 1));
    }

    #[test]
    fn the_oldest_removals_make_room_and_newer_ones_of_a_topic_stay() {
        let mut removals = Removals::default();
        removals.note("again", 1);
        removals.note("old", 1);
        removals.note("again", 2);
        for number in 0..REMOVALS_MAX - 1 {
            removals.note(&format!("t/{number}"), 1);
        }
        assert!(!removals.outdate("old", 1) && removals.outdate("again", 2));
        assert_eq!(removals.order.len(), REMOVALS_MAX);
    }
}
