//! Messages that a broker does not bring back although a client of this process wants them: the broker has refused the
//! matching filters, or grants them and keeps the messages of a topic back. Other brokers that hold the filters get
//! such messages. If no other broker holds the filters, the broker still gets the messages, for its other subscribers,
//! and this process delivers them to its own clients.

use crate::orchestrator::broker_link::Brokers;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::{BrokerLink, BrokerLinks};
use crate::ids::BrokerLinkKey;
use crate::ids::SessionKey;

/// Topics remembered for a connection whose messages the broker took and did not bring back. When there are more, all
/// are forgotten and found out again.
const KEPT_BACK_MAX: usize = 1_024;

/// The decision of filters about a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Covered {
    /// None matches.
    Unwanted,
    /// Some match, and all of them were refused.
    Refused,
    /// One that was not refused matches.
    Granted,
}

impl BrokerLink {
    /// True if the broker should bring back a message that a client of this process wants.
    fn brings(&self, wanted: &BTreeMap<Box<str>, u64>, topic: &str) -> bool {
        !self.filters.kept_back.contains(topic)
            && (self.filters.refused.is_empty()
                || covered(wanted, topic, &|filter| self.filters.refused.contains(filter)) != Covered::Refused)
    }

    /// Whether the broker should get no messages.
    fn is_passed_over(&self) -> bool {
        self.pause.is_on() || self.draining.is_some() || self.ends || !self.filters.are_asked()
    }

    /// Whether there is any message that the broker had better not get.
    fn is_flawed(&self) -> bool {
        self.is_passed_over() || !self.filters.refuses_nothing()
    }
}

impl BrokerLinks {
    /// Whether the broker of a session had better not get a message of a topic, if another can.
    #[inline]
    pub(crate) fn is_unfit(&self, session: SessionKey, topic: &str) -> bool {
        self.brokers.flawed.contains(&session.0) && {
            let broker_link = self.brokers.by_session.get(&session.0).and_then(|key| self.brokers.all.get(key));
            broker_link.is_some_and(|broker_link| {
                broker_link.is_passed_over() || !broker_link.brings(self.wanted.at(broker_link), topic)
            })
        }
    }

    /// True if a broker keeps messages back that a client of this process wants.
    #[inline]
    pub(crate) fn keeps_back(&self, session: SessionKey, topic: &str) -> bool {
        // Where brokers decide about reading, only they deliver.
        !self.brokers.config.brokers_decide() && self.brokers.flawed.contains(&session.0) && {
            let broker_link = self.brokers.by_session.get(&session.0).and_then(|key| self.brokers.all.get(key));
            broker_link.is_some_and(|broker_link| !broker_link.brings(self.wanted.at(broker_link), topic))
        }
    }
}

impl Brokers {
    /// Notes whether a broker had better not get everything.
    pub(crate) fn note_flaws(&mut self, key: BrokerLinkKey) {
        let Some(broker_link) = self.all.get(&key) else { return };
        if broker_link.is_flawed() {
            self.flawed.insert(broker_link.session.0);
        } else {
            self.flawed.remove(&broker_link.session.0);
        }
    }

    /// A broker has taken messages of a topic again and again and brought none back.
    pub(crate) fn note_kept_back(&mut self, key: BrokerLinkKey, topic: &str) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        let kept_back = &mut broker_link.filters.kept_back;
        if kept_back.len() >= KEPT_BACK_MAX {
            kept_back.clear();
        }
        kept_back.insert(topic.into());
        broker_link.last_error = format!(
            "the broker acknowledges messages of the topic {topic:?} and does not bring them back; may its user read them?"
        );
        self.note_flaws(key);
    }

    /// A broker brings a message of a topic.
    #[inline]
    pub(crate) fn note_brought(&mut self, key: BrokerLinkKey, topic: &[u8]) {
        if self.flawed.is_empty() {
            return;
        }
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        if !broker_link.filters.kept_back.is_empty()
            && let Ok(topic) = std::str::from_utf8(topic)
            && broker_link.filters.kept_back.remove(topic)
        {
            self.note_flaws(key);
        }
    }
}

/// The decision of filters about a topic; some were refused. Looks only at filters that begin as the topic does.
fn covered(filters: &BTreeMap<Box<str>, u64>, topic: &str, refused: &dyn Fn(&str) -> bool) -> Covered {
    let mut walk = Walk { filters, refused, begun: String::with_capacity(topic.len() + 2), found: Covered::Unwanted };
    walk.follow(topic, !topic.starts_with('$'));
    walk.found
}

/// A search among filters in their order, level by level.
struct Walk<'a> {
    filters: &'a BTreeMap<Box<str>, u64>,
    refused: &'a dyn Fn(&str) -> bool,
    /// The levels passed so far, each with the separator behind it.
    begun: String,
    found: Covered,
}

impl Walk<'_> {
    /// Looks at all filters that begin as those levels that were passed, and match the rest of the topic.
    fn follow(&mut self, rest: &str, wildcards: bool) {
        if self.found == Covered::Granted || !self.is_begun() {
            return;
        }
        if wildcards {
            self.look_at("#");
        }
        let (level, rest) = match rest.split_once('/') {
            Some((level, rest)) => (level, Some(rest)),
            None => (rest, None),
        };
        for level in [Some(level), wildcards.then_some("+")].into_iter().flatten() {
            let Some(rest) = rest else {
                self.look_at(level);
                // "a/#" matches "a", too (section 4.7.1.2).
                self.descend(level, |walk| walk.look_at("#"));
                continue;
            };
            self.descend(level, |walk| walk.follow(rest, true));
        }
    }

    fn descend(&mut self, level: &str, act: impl FnOnce(&mut Self)) {
        let before = self.begun.len();
        self.begun.push_str(level);
        self.begun.push('/');
        act(self);
        self.begun.truncate(before);
    }

    /// Whether any filter has this beginning.
    fn is_begun(&self) -> bool {
        let from = (Bound::Included(self.begun.as_str()), Bound::Unbounded);
        self.filters.range::<str, _>(from).next().is_some_and(|(filter, _)| filter.starts_with(&self.begun))
    }

    fn look_at(&mut self, last: &str) {
        let before = self.begun.len();
        self.begun.push_str(last);
        if self.found != Covered::Granted && self.filters.contains_key(self.begun.as_str()) {
            self.found = if (self.refused)(&self.begun) { Covered::Refused } else { Covered::Granted };
        }
        self.begun.truncate(before);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_mqtt::{TopicFilter, TopicName};

    use super::*;

    #[test]
    fn filters_are_found_as_they_match() {
        let levels = ["", "a", "b", "+", "#", "$s"];
        let mut filters: Vec<String> = Vec::new();
        for first in levels {
            filters.push(first.to_owned());
            for second in levels {
                filters.push(format!("{first}/{second}"));
                filters.extend(levels.map(|third| format!("{first}/{second}/{third}")));
            }
        }
        filters.retain(|filter| TopicFilter::new(filter).is_ok());
        for topic in ["a", "/", "a/b", "b/a/a", "$s", "$s/a", "a/$s/b", "a//b", "a/b/a/b", "/a"] {
            let name = TopicName::new(topic).unwrap();
            for filter in &filters {
                let matches = TopicFilter::new(filter).unwrap().matches(name);
                let one: BTreeMap<Box<str>, u64> = [(filter.as_str().into(), 1)].into();
                let granted = if matches { Covered::Granted } else { Covered::Unwanted };
                assert_eq!(covered(&one, topic, &|_| false), granted, "{filter} and {topic}");
                let refused = if matches { Covered::Refused } else { Covered::Unwanted };
                assert_eq!(covered(&one, topic, &|_| true), refused, "{filter} and {topic}");
                // One that is granted is enough, whatever others there are.
                let all: BTreeMap<Box<str>, u64> = filters.iter().map(|filter| (filter.as_str().into(), 1)).collect();
                assert_eq!(covered(&all, topic, &|other| other != filter) == Covered::Granted, matches);
            }
        }
    }
}
