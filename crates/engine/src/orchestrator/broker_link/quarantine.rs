//! Topics that brokers deny are refused to their publishers for a while.
//!
//! A message that a broker denies by closing the connection costs every publisher a moment. Without a memory, each
//! further message of the same topic would cost it again.

use std::collections::BTreeMap;

use tidegate_mqtt::ReasonCode;

use crate::ids::BrokerLinkKey;
use crate::now::Millis;

/// Limit of remembered topics. Beyond it the topic whose time ends first is forgotten.
const TOPICS_MAX: usize = 1_024;
/// How long a topic is refused, and how long a first denial is remembered, milliseconds.
const REMEMBERED_MS: u64 = 60_000;
/// Messages of a topic that are set aside before the topic is refused. One message may have been denied for its
/// payload.
const DENIALS: u8 = 2;

/// Topics whose messages brokers have denied.
#[derive(Debug)]
pub(crate) struct Quarantine {
    topics: BTreeMap<Box<str>, Denied>,
    /// When the first of them is forgotten.
    next_end: Millis,
}

/// Brokers that have to deny a topic until it is refused, if at least this number could take its messages:
/// one of them may have other rules than the rest.
const BROKERS_ENOUGH: usize = 2;

#[derive(Clone, Debug)]
struct Denied {
    times: u8,
    /// Brokers that have denied the topic.
    by: Vec<BrokerLinkKey>,
    until: Millis,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self { topics: BTreeMap::new(), next_end: Millis::NEVER }
    }
}

impl Quarantine {
    /// Whether no topic is remembered.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Whether messages of a topic are refused.
    pub(crate) fn holds(&mut self, topic: &str, now: Millis) -> bool {
        self.forget_old(now);
        self.topics.get(topic).is_some_and(|denied| denied.times >= DENIALS)
    }

    /// A broker has denied a message of a topic without a word about the topic. Returns whether the topic is refused from
    /// now on.
    pub(crate) fn note_denied(&mut self, topic: &str, now: Millis) -> bool {
        self.note(topic, now, |denied| denied.times = denied.times.saturating_add(1))
    }

    /// Notes that one of the serving brokers denies a topic. Returns whether the topic is refused from now on.
    pub(crate) fn note_denied_by(&mut self, topic: &str, now: Millis, broker: BrokerLinkKey, able: usize) -> bool {
        self.note(topic, now, |denied| {
            if !denied.by.contains(&broker) && denied.by.len() < BROKERS_ENOUGH {
                denied.by.push(broker);
            }
            if denied.by.len() >= able.clamp(1, BROKERS_ENOUGH) {
                denied.times = DENIALS;
            }
        })
    }

    fn note(&mut self, topic: &str, now: Millis, count: impl FnOnce(&mut Denied)) -> bool {
        self.forget_old(now);
        if self.topics.len() >= TOPICS_MAX && !self.topics.contains_key(topic) {
            let first = self.topics.iter().min_by_key(|(_, denied)| denied.until).map(|(topic, _)| topic.clone());
            first.and_then(|topic| self.topics.remove(&topic));
        }
        let until = now.plus(REMEMBERED_MS);
        let denied = self.topics.entry(topic.into()).or_insert(Denied { times: 0, by: Vec::new(), until });
        let before = denied.times;
        count(denied);
        denied.until = until;
        self.next_end = self.next_end.min(until);
        before < DENIALS && denied.times >= DENIALS
    }

    /// The shard of the broker links refuses a topic.
    pub(crate) fn add(&mut self, topic: &str, now: Millis) {
        self.note(topic, now, |denied| denied.times = DENIALS);
    }

    /// A broker has taken a message of a topic: an earlier denial was about that message alone.
    pub(crate) fn note_taken(&mut self, topic: &str) {
        if self.topics.get(topic).is_some_and(|denied| denied.times < DENIALS) {
            self.topics.remove(topic);
        }
    }

    fn forget_old(&mut self, now: Millis) {
        if self.next_end > now {
            return;
        }
        self.topics.retain(|_, denied| denied.until > now);
        self.next_end = self.topics.values().map(|denied| denied.until).min().unwrap_or(Millis::NEVER);
    }
}

/// Whether a broker that gives this reason denies the topic, not only this message.
pub(crate) fn is_about_topic(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::NotAuthorized | ReasonCode::TopicNameInvalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_refused_from_its_second_denial_for_a_minute() {
        let mut quarantine = Quarantine::default();
        assert!(!quarantine.note_denied("a", Millis(0)) && !quarantine.holds("a", Millis(0)));
        assert!(quarantine.note_denied("a", Millis(10)) && quarantine.holds("a", Millis(60_009)));
        assert!(!quarantine.note_denied("a", Millis(20)), "reported once");
        assert!(!quarantine.holds("a", Millis(60_020)) && quarantine.is_empty());
        assert!(quarantine.note_denied_by("a", Millis(60_020), BrokerLinkKey(1), 1));
    }

    #[test]
    fn a_message_that_is_taken_clears_a_first_denial() {
        let mut quarantine = Quarantine::default();
        quarantine.note_denied("a", Millis(0));
        quarantine.note_taken("a");
        assert!(!quarantine.note_denied("a", Millis(0)));
    }

    #[test]
    fn two_brokers_have_to_deny_a_topic_where_two_serve() {
        let mut quarantine = Quarantine::default();
        for _ in 0..3 {
            assert!(!quarantine.note_denied_by("a", Millis(0), BrokerLinkKey(1), 3));
        }
        assert!(!quarantine.holds("a", Millis(0)));
        assert!(quarantine.note_denied_by("a", Millis(0), BrokerLinkKey(2), 3) && quarantine.holds("a", Millis(0)));
        assert!(quarantine.note_denied_by("b", Millis(0), BrokerLinkKey(1), 1), "no other broker could take it");
    }

    #[test]
    fn the_denial_that_ends_first_makes_room() {
        let mut quarantine = Quarantine::default();
        for number in 0..=TOPICS_MAX as u64 {
            quarantine.add(&format!("t/{number}"), Millis(number));
        }
        assert_eq!(quarantine.topics.len(), TOPICS_MAX);
        let newest = format!("t/{TOPICS_MAX}");
        assert!(!quarantine.holds("t/0", Millis(2_000)) && quarantine.holds(&newest, Millis(2_000)));
    }
}
