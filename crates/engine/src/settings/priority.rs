//! Messages that go before others.

use tidegate_mqtt::{PublishProperties, TopicFilter, TopicName};

use crate::message::PRIORITY_MAX;
use crate::settings::{PriorityRule, PrioritySource};

/// Name of the user property that gives a message its priority.
const PROPERTY: &str = "priority";

/// The source of the priority of a topic's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TopicPriority {
    /// No rule speaks of the topic.
    #[default]
    Ordinary,
    /// The same for all.
    Fixed(u8),
    /// The message's priority, or this if it has none.
    Property(u8),
}

impl TopicPriority {
    /// The priority of a topic by the first rule that matches.
    pub(crate) fn of(rules: &[PriorityRule], topic: &str) -> Self {
        if rules.is_empty() {
            return Self::Ordinary;
        }
        let Ok(name) = TopicName::new(topic) else { return Self::Ordinary };
        let matches = |rule: &&PriorityRule| TopicFilter::new(&rule.filter).is_ok_and(|filter| filter.matches(name));
        match rules.iter().find(matches) {
            None => Self::Ordinary,
            Some(PriorityRule { source: PrioritySource::Fixed(level), .. }) => Self::Fixed(PRIORITY_MAX.min(*level)),
            Some(PriorityRule { default, .. }) => Self::Property(PRIORITY_MAX.min(*default)),
        }
    }

    /// The priority of a message with these encoded properties.
    #[inline]
    pub(crate) fn level(self, properties: &[u8]) -> u8 {
        match self {
            Self::Ordinary => 0,
            Self::Fixed(level) => level,
            Self::Property(default) if properties.is_empty() => default,
            Self::Property(default) => named_level(properties).unwrap_or(default),
        }
    }
}

/// The first property of the name that is one digit.
fn named_level(properties: &[u8]) -> Option<u8> {
    let properties = PublishProperties::decode(properties).ok()?;
    properties.user_properties.iter().filter(|(name, _)| *name == PROPERTY).find_map(|(_, value)| {
        match value.as_bytes() {
            [digit @ b'0'..=b'9'] => Some(digit - b'0'),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::dead_letter::put_user_property;

    fn encoded(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            put_user_property(&mut bytes, name, value);
        }
        bytes
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rule = |filter: &str, source, default| PriorityRule { filter: filter.into(), source, default };
        let rules = [
            rule("alarm/#", PrioritySource::Fixed(9), 0),
            rule("+/log", PrioritySource::Property, 3),
            rule("alarm/log", PrioritySource::Fixed(1), 0),
        ];
        assert_eq!(TopicPriority::of(&rules, "alarm/log"), TopicPriority::Fixed(9));
        assert_eq!(TopicPriority::of(&rules, "pump/log"), TopicPriority::Property(3));
        assert_eq!(TopicPriority::of(&rules, "pump"), TopicPriority::Ordinary);
    }

    #[test]
    fn only_one_digit_is_a_priority() {
        let level = |pairs: &[(&str, &str)]| TopicPriority::Property(4).level(&encoded(pairs));
        assert_eq!(level(&[("priority", "0")]), 0);
        assert_eq!(level(&[("other", "1"), ("priority", "9")]), 9);
        for value in ["10", "", "-1", "high", " 5"] {
            assert_eq!(level(&[("priority", value)]), 4, "{value:?}");
        }
        assert_eq!(level(&[("priority", "x"), ("priority", "7")]), 7);
        assert_eq!(TopicPriority::Property(4).level(&[]), 4);
        assert_eq!(TopicPriority::Ordinary.level(&encoded(&[("priority", "9")])), 0);
    }
}
