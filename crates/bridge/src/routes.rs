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
    #[error("a bridge without topics carries nothing: name at least one, such as \"sensors/# out 1\"")]
    Nothing,
    /// There are too many.
    #[error("a bridge has at most {MAX_RULES} lines of topics, not {0}: a filter with a wildcard says more in one")]
    TooMany(usize),
}

/// The topics of a bridge. Of several lines that are for a topic the first one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes(Vec<TopicRule>);

impl Routes {
    /// Those of these lines.
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

    /// What the broker of this side is asked for: each filter once, at the highest QoS that a line has for it.
    pub(crate) fn subscriptions(&self, side: Side) -> Vec<(TopicFilterBuf, QoS)> {
        let mut wanted: BTreeMap<&TopicFilterBuf, QoS> = BTreeMap::new();
        for (filter, qos) in self.0.iter().filter_map(|rule| rule.wanted(side)) {
            let highest = wanted.entry(filter).or_insert(qos);
            *highest = qos.max(*highest);
        }
        wanted.into_iter().map(|(filter, qos)| (filter.clone(), qos)).collect()
    }

    /// Where a message of a topic of this side goes, and the highest QoS that it goes with; nothing where no line is
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
            routes.subscriptions(side).iter().map(|(filter, qos)| format!("{filter} {}", *qos as u8)).collect()
        };
        assert_eq!(shown(Side::Local), ["a/# 2", "b 1"]);
        assert_eq!(shown(Side::Remote), ["a/# 2", "c 1"]);
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
