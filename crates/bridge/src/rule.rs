//! One line of topics: which, which way, at which QoS, and under which names.

use std::fmt;
use std::str::FromStr;

use tidegate_client::{QoS, TopicError, TopicFilterBuf, TopicNameBuf};

use crate::status::Side;

/// The word for no prefix.
const NOTHING: &str = "\"\"";

/// The direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this broker to the other one.
    Out,
    /// From the other broker to this one.
    In,
    /// Both ways.
    Both,
}

impl Direction {
    /// Whether messages leave this side.
    const fn leaves(self, side: Side) -> bool {
        match side {
            Side::Local => matches!(self, Self::Out | Self::Both),
            Side::Remote => matches!(self, Self::In | Self::Both),
        }
    }
}

/// The reason why a line of topics is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicRuleError {
    /// There are no words, or too many.
    #[error(
        "`{0}` is no line of topics: write PATTERN [out|in|both [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]], with \"\" for no prefix"
    )]
    Form(String),
    /// The second word is no direction.
    #[error("`{0}` is no direction: write out, in or both")]
    Direction(String),
    /// The third word is no QoS.
    #[error("`{0}` is no QoS: write 0, 1 or 2")]
    QoS(String),
    /// A prefix and the pattern make no filter.
    #[error("`{filter}` cannot be subscribed to: it {source}")]
    Filter {
        /// The resulting filter.
        filter: String,
        /// Its fault.
        source: TopicError,
    },
    /// A prefix is put before topics unchanged, and no topic has a wildcard.
    #[error("the prefix `{0}` has a wildcard: only the pattern may have one")]
    Wildcard(String),
    /// A shared subscription gives a bridge a part of the messages.
    #[error(
        "`{0}` is a shared subscription, which would forward only a part of the messages: write the filter without $share"
    )]
    Shared(String),
}

/// One line of topics.
///
/// A pattern is a topic filter; the prefixes stand before it, each in the names of one side: `LOCAL-PREFIX` and more
/// here is `REMOTE-PREFIX` and the same more there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRule {
    pattern: String,
    direction: Direction,
    qos: QoS,
    local: Names,
    remote: Names,
}

/// The names of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    prefix: String,
    filter: TopicFilterBuf,
}

impl Names {
    fn new(prefix: &str, pattern: &str) -> Result<Self, TopicRuleError> {
        if prefix.contains(['+', '#']) {
            return Err(TopicRuleError::Wildcard(prefix.to_owned()));
        }
        let text = format!("{prefix}{pattern}");
        if text.starts_with("$share/") {
            return Err(TopicRuleError::Shared(text));
        }
        let filter = TopicFilterBuf::new(text.as_str());
        let filter = filter.map_err(|source| TopicRuleError::Filter { filter: text, source })?;
        Ok(Self { prefix: prefix.to_owned(), filter })
    }
}

impl TopicRule {
    /// The subscription at this side's broker; `None` where no messages leave it.
    pub(crate) fn wanted(&self, side: Side) -> Option<(&TopicFilterBuf, QoS)> {
        self.direction.leaves(side).then(|| (&self.names(side).filter, self.qos))
    }

    /// The name at the other side of a topic of this one; nothing where the rule is not for it.
    ///
    /// # Errors
    /// When the name would be too long to be one.
    pub(crate) fn name_beyond(&self, side: Side, topic: &TopicNameBuf) -> Option<Result<TopicNameBuf, TopicError>> {
        let names = self.names(side);
        if !self.direction.leaves(side) || !names.filter.matches(topic) {
            return None;
        }
        let rest = topic.as_str().strip_prefix(names.prefix.as_str())?;
        Some(TopicNameBuf::new(format!("{}{rest}", self.names(side.other()).prefix)))
    }

    /// Whether messages that this rule carries away from `side` can return to it by `other`, and be carried by this
    /// one again.
    pub(crate) fn loops_with(&self, side: Side, other: &Self) -> bool {
        let beyond = side.other();
        self.direction.leaves(side)
            && other.direction.leaves(beyond)
            && self.names(beyond).filter.overlaps(&other.names(beyond).filter)
            && self.names(side).filter.overlaps(&other.names(side).filter)
    }

    /// Whether messages that this rule carries keep a name that it carries, so that a broker would be its own neighbour.
    pub(crate) fn keeps_names(&self) -> bool {
        self.local.filter.overlaps(&self.remote.filter)
    }

    /// The highest QoS that messages are carried with.
    pub(crate) fn qos(&self) -> QoS {
        self.qos
    }

    fn names(&self, side: Side) -> &Names {
        match side {
            Side::Local => &self.local,
            Side::Remote => &self.remote,
        }
    }
}

impl FromStr for TopicRule {
    type Err = TopicRuleError;

    fn from_str(text: &str) -> Result<Self, TopicRuleError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let form = || TopicRuleError::Form(text.to_owned());
        let prefix = |word: Option<&&str>| word.copied().filter(|word| *word != NOTHING).unwrap_or_default().to_owned();
        let pattern = prefix(words.first());
        if words.is_empty() || words.len() > 5 {
            return Err(form());
        }
        let direction = match words.get(1).copied() {
            None | Some("out") => Direction::Out,
            Some("in") => Direction::In,
            Some("both") => Direction::Both,
            Some(other) => return Err(TopicRuleError::Direction(other.to_owned())),
        };
        let qos = match words.get(2).copied() {
            None | Some("0") => QoS::AtMostOnce,
            Some("1") => QoS::AtLeastOnce,
            Some("2") => QoS::ExactlyOnce,
            Some(other) => return Err(TopicRuleError::QoS(other.to_owned())),
        };
        let (local, remote) = (prefix(words.get(3)), prefix(words.get(4)));
        let (local, remote) = (Names::new(&local, &pattern)?, Names::new(&remote, &pattern)?);
        Ok(Self { pattern, direction, qos, local, remote })
    }
}

impl fmt::Display for TopicRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |text: &str| if text.is_empty() { NOTHING.to_owned() } else { text.to_owned() };
        let direction = match self.direction {
            Direction::Out => "out",
            Direction::In => "in",
            Direction::Both => "both",
        };
        let (pattern, local, remote) = (word(&self.pattern), word(&self.local.prefix), word(&self.remote.prefix));
        write!(f, "{pattern} {direction} {} {local} {remote}", self.qos as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> TopicRule {
        text.parse().unwrap()
    }

    fn beyond(rule: &TopicRule, side: Side, topic: &str) -> Option<String> {
        let name = rule.name_beyond(side, &TopicNameBuf::new(topic).unwrap())?;
        Some(name.unwrap().as_str().to_owned())
    }

    #[test]
    fn a_line_has_only_values_other_than_the_defaults() {
        assert_eq!(rule("sensors/#").to_string(), "sensors/# out 0 \"\" \"\"");
        assert_eq!(rule("sensors/# in").to_string(), "sensors/# in 0 \"\" \"\"");
        assert_eq!(rule("# both 2 a/ b/").to_string(), "# both 2 a/ b/");
        assert_eq!(rule("\"\" out 1 a b").to_string(), "\"\" out 1 a b");
    }

    #[test]
    fn names_change_their_prefix_and_nothing_else() {
        let out = rule("t/# out 1 here/ there/");
        assert_eq!(beyond(&out, Side::Local, "here/t/1").as_deref(), Some("there/t/1"));
        assert_eq!(beyond(&out, Side::Local, "here/u/1"), None, "another topic");
        assert_eq!(beyond(&out, Side::Remote, "there/t/1"), None, "the other way");
        assert_eq!(out.wanted(Side::Remote), None);
        let both = rule("# both 2 \"\" there/");
        assert_eq!(beyond(&both, Side::Local, "a/b").as_deref(), Some("there/a/b"));
        assert_eq!(beyond(&both, Side::Remote, "there/a/b").as_deref(), Some("a/b"));
        assert_eq!(beyond(&both, Side::Local, "$SYS/load"), None, "# is not for topics of brokers [MQTT-4.7.2-1]");
        let one = rule("\"\" in 0 a c/d");
        assert_eq!(beyond(&one, Side::Remote, "c/d").as_deref(), Some("a"));
    }

    #[test]
    fn a_name_that_gets_too_long_is_an_error_and_not_another_name() {
        let out = rule("# out 0 \"\" prefix/");
        let long = TopicNameBuf::new("x".repeat(65_535)).unwrap();
        assert!(matches!(out.name_beyond(Side::Local, &long), Some(Err(_))));
    }

    #[test]
    fn an_invalid_line_is_refused_with_a_valid_form() {
        for (text, part) in [
            ("", "no line of topics"),
            ("a out 0 b c d", "no line of topics"),
            ("a up", "write out, in or both"),
            ("a out 3", "write 0, 1 or 2"),
            ("a/#/b", "cannot be subscribed to"),
            ("\"\" out 0 a", "cannot be subscribed to"),
            ("# out 0 a/+/", "has a wildcard"),
            ("$share/g/a", "shared subscription"),
        ] {
            let error = text.parse::<TopicRule>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
