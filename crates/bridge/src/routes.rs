//! All topics of a bridge.

use std::collections::BTreeMap;

use tidegate_client::{QoS, TopicError, TopicFilterBuf, TopicNameBuf};

use crate::rule::TopicRule;
use crate::status::Side;

/// Lines of topics that a bridge may have.
const MAX_RULES: usize = 256;

/// Why topics are none of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutesError {
    /// There are none.
    #[error("a bridge needs topics: name at least one, such as \"sensors/# out 1\"")]
    Nothing,
    /// There are too many.
    #[error("a bridge has at most {MAX_RULES} lines of topics, not {0}: combine them with wildcards")]
    TooMany(usize),
}

/// The topics of a bridge. Of several lines that are for a topic the first one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes(Vec<TopicRule>);

impl Routes {
    /// The routes of these lines.
    ///
    /// # Errors
    /// When there are none, or too many.
    pub fn new(rules: Vec<TopicRule>) -> Result<Self, RoutesError> {
        match rules.len() {
            0 => Err(RoutesError::Nothing),
            len if len > MAX_RULES => Err(RoutesError::TooMany(len)),
            _ => Ok(Self(rules)),
        }
    }

    /// The first line of a bridge to a broker whose messages return by a line of `other`, a bridge to the same
    /// broker, and are carried again. Both lines are given.
    pub fn loop_with<'a>(&'a self, other: &'a Self) -> Option<(&'a TopicRule, &'a TopicRule)> {
        self.0.iter().find_map(|out| Some((out, other.back(out)?)))
    }

    /// The first line that carries messages of this broker to a name that it carries, too: such a bridge cannot lead to
    /// this broker itself.
    pub fn keeps_names(&self) -> Option<&TopicRule> {
        self.0.iter().find(|rule| rule.keeps_names())
    }

    /// The line that brings back what `out` carries away.
    fn back(&self, out: &TopicRule) -> Option<&TopicRule> {
        self.0.iter().find(|rule| out.loops_with(Side::Local, rule))
    }

    /// The lines that bring back what this bridge carries to the other broker, unless that broker keeps a client's own
    /// messages from it.
    pub(crate) fn echoes(&self) -> impl Iterator<Item = &TopicRule> {
        self.0.iter().filter(|rule| self.0.iter().any(|out| out.loops_with(Side::Local, rule)))
    }

    /// The subscriptions at the broker of this side: each filter once, at the highest QoS that a line has for it. Where
    /// the broker sends a client's own messages back (`echoes`), lines that would bring them back are left out.
    pub(crate) fn subscriptions(&self, side: Side, echoes: bool) -> Vec<(TopicFilterBuf, QoS)> {
        let mut wanted: BTreeMap<&TopicFilterBuf, QoS> = BTreeMap::new();
        let left_out = |rule: &TopicRule| echoes && side == Side::Remote && self.echoes().any(|it| it == rule);
        let rules = self.0.iter().filter(|rule| !left_out(rule));
        for (filter, qos) in rules.filter_map(|rule| rule.wanted(side)) {
            let highest = wanted.entry(filter).or_insert(qos);
            *highest = qos.max(*highest);
        }
        wanted.into_iter().map(|(filter, qos)| (filter.clone(), qos)).collect()
    }

    /// The topic and the highest QoS of a message on the other side; nothing if no line is
    /// for it.
    ///
    /// # Errors
    /// When its name there would be too long.
    pub(crate) fn route(&self, from: Side, topic: &TopicNameBuf) -> Option<Result<(TopicNameBuf, QoS), TopicError>> {
        let named = |rule: &TopicRule| Some(rule.name_beyond(from, topic)?.map(|name| (name, rule.qos())));
        self.0.iter().find_map(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(lines: &[&str]) -> Routes {
        Routes::new(lines.iter().map(|line| line.parse().unwrap()).collect()).unwrap()
    }

    #[test]
    fn a_filter_is_asked_for_once_at_its_highest_qos() {
        let routes = routes(&["a/# out 0", "b out 1", "a/# both 2", "c in 1"]);
        let shown = |side| -> Vec<_> {
            routes.subscriptions(side, false).iter().map(|(filter, qos)| format!("{filter} {}", *qos as u8)).collect()
        };
        assert_eq!(shown(Side::Local), ["a/# 2", "b 1"]);
        assert_eq!(shown(Side::Remote), ["a/# 2", "c 1"]);
    }

    #[test]
    fn lines_that_bring_back_carried_messages_are_found() {
        let none = |lines: &[&str]| routes(lines).echoes().count() == 0;
        assert!(none(&["a/# out 1", "b/# in 1"]));
        assert!(none(&["a/# out 1 \"\" far/", "far/# in 1"]), "under another name here");
        assert!(none(&["a/# out 1 \"\" far/", "a/# in 1"]), "another name there");
        let both = routes(&["c in 0", "a/# both 1 \"\" far/", "+/b in 0", "a/b/c in 0 \"\" far/"]);
        let echoes: Vec<_> = both.echoes().map(ToString::to_string).collect();
        assert_eq!(echoes, ["a/# both 1 \"\" far/", "a/b/c in 0 \"\" far/"]);
        let asked: Vec<_> = both.subscriptions(Side::Remote, true).iter().map(|(it, _)| it.to_string()).collect();
        assert_eq!(asked, ["+/b", "c"]);
        assert_eq!(both.subscriptions(Side::Local, true).len(), 1, "this broker has No Local");
    }

    #[test]
    fn the_first_line_that_is_for_a_topic_counts() {
        let routes = routes(&["a/b out 1 \"\" first/", "a/# out 2 \"\" second/"]);
        let to = |topic: &str| {
            let (name, qos) = routes.route(Side::Local, &TopicNameBuf::new(topic).unwrap())?.unwrap();
            Some(format!("{name} {}", qos as u8))
        };
        assert_eq!(to("a/b").as_deref(), Some("first/a/b 1"));
        assert_eq!(to("a/c").as_deref(), Some("second/a/c 2"));
        assert_eq!(to("b"), None);
    }

    #[test]
    fn no_topics_and_too_many_are_refused() {
        assert_eq!(Routes::new(Vec::new()), Err(RoutesError::Nothing));
        let many = vec!["a".parse().unwrap(); MAX_RULES + 1];
        assert_eq!(Routes::new(many), Err(RoutesError::TooMany(257)));
    }
}
