//! Topics on which nodes publish their state: topics of the core, and configured ones (`CTX-31`).

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Longest pattern, bytes.
const MAX_PATTERN_BYTES: usize = 512;
/// The level of a pattern that contains the node's name.
const NODE: &str = "{node}";

/// Why a pattern was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{pattern:?} cannot be a topic of contexts: it is a topic filter of up to {MAX_PATTERN_BYTES} bytes that begins with no `$`, \
     in which one level may be {NODE}"
)]
pub struct TopicPatternError {
    /// The pattern.
    pub pattern: String,
}

/// The content of a message about nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A node's context; empty when the node has left for good.
    Context {
        /// The node.
        node: String,
        /// Its context.
        context: Vec<u8>,
    },
    /// The nodes of groups, published by a client that defines groups.
    Advertisement {
        /// The definer.
        definer: String,
        /// As it was sent.
        payload: Vec<u8>,
    },
}

/// Where a context is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Payload,
    Property,
}

#[derive(Clone, Debug)]
struct Pattern {
    levels: Vec<String>,
    within: Within,
}

/// The topics on which nodes publish their state.
#[derive(Clone, Debug)]
pub struct ContextTopics {
    prefix: String,
    patterns: Vec<Pattern>,
}

impl ContextTopics {
    /// The topics of the core with the given prefix, `PREFIX/context/NODE` and `PREFIX/GroupAdvertisement/DEFINER`;
    /// `payloads`, whose messages are contexts if they are JSON objects; and `properties`, whose messages may carry a
    /// context in a user property. The node is the name at the level `{node}`, or the publisher if a pattern has no
    /// such level.
    ///
    /// # Errors
    /// When one is no pattern.
    pub fn new(prefix: &str, payloads: &[String], properties: &[String]) -> Result<Self, TopicPatternError> {
        let all = payloads.iter().map(|it| (it, Within::Payload));
        let all = all.chain(properties.iter().map(|it| (it, Within::Property)));
        let patterns = all.map(|(text, within)| Pattern::read(text, within)).collect::<Result<_, _>>()?;
        Ok(Self { prefix: prefix.to_owned(), patterns })
    }

    /// Filters that all of these topics match.
    pub fn filters(&self) -> Vec<String> {
        let own = ["context", "GroupAdvertisement"].map(|name| format!("{}/{name}/+", self.prefix));
        own.into_iter().chain(self.patterns.iter().map(Pattern::filter)).collect()
    }

    /// Whether a client's message on the core's own topics, with the given prefix, is unusable: a context that is not a
    /// JSON object, or an invalid advertisement.
    pub fn is_unusable(prefix: &str, topic: &str, payload: &[u8]) -> bool {
        let own = Self { prefix: prefix.to_owned(), patterns: Vec::new() };
        own.read("", topic, None, payload.to_vec()).is_some_and(|said| said.check().is_err())
    }

    /// Reads a message. `carried` is the value of its first user property `context`.
    pub fn read(&self, publisher: &str, topic: &str, carried: Option<&str>, payload: Vec<u8>) -> Option<Said> {
        let own = topic.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix('/'));
        match own.and_then(|rest| rest.split_once('/')) {
            Some(("context", level)) if !level.contains('/') => {
                return Some(Said::Context { node: name_of(level), context: payload });
            }
            Some(("GroupAdvertisement", level)) if !level.contains('/') => {
                return Some(Said::Advertisement { definer: name_of(level), payload });
            }
            _ => {}
        }
        let said = |pattern: &Pattern| {
            let node = pattern.node(topic, publisher)?;
            let context = match pattern.within {
                Within::Payload => Some(&payload[..]),
                Within::Property => carried.map(str::as_bytes),
            };
            Some((node, context.filter(|context| is_object(context))?.to_vec()))
        };
        let (node, context) = self.patterns.iter().find_map(said)?;
        Some(Said::Context { node, context })
    }
}

impl Pattern {
    fn read(text: &str, within: Within) -> Result<Self, TopicPatternError> {
        let levels: Vec<String> = text.split('/').map(str::to_owned).collect();
        let last = levels.len() - 1;
        let is_level = |(at, level): (usize, &String)| match level.as_str() {
            "#" => at == last,
            "+" | NODE => true,
            level => !level.contains(['+', '#', '{', '}', '\0']),
        };
        let valid = !text.is_empty()
            && text.len() <= MAX_PATTERN_BYTES
            && !text.starts_with('$')
            && levels.iter().enumerate().all(is_level)
            && levels.iter().filter(|level| *level == NODE).count() <= 1;
        if valid { Ok(Self { levels, within }) } else { Err(TopicPatternError { pattern: text.to_owned() }) }
    }

    fn filter(&self) -> String {
        let levels = self.levels.iter().map(|level| if level == NODE { "+" } else { level });
        levels.collect::<Vec<_>>().join("/")
    }

    /// The node of a topic, if it matches.
    fn node(&self, topic: &str, publisher: &str) -> Option<String> {
        let (mut node, mut levels) = (None, topic.split('/'));
        for wanted in &self.levels {
            if wanted == "#" {
                levels.by_ref().for_each(drop);
                break;
            }
            match (wanted.as_str(), levels.next()?) {
                (NODE, level) => node = Some(name_of(level)),
                ("+", _) => {}
                (wanted, level) if wanted == level => {}
                _ => return None,
            }
        }
        if levels.next().is_some() {
            return None;
        }
        let node = node.unwrap_or_else(|| publisher.to_owned());
        (!node.is_empty()).then_some(node)
    }
}

/// Whether a text is a JSON object, as definers read one.
pub(crate) fn is_object(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'{') && serde_json::from_slice::<Readable>(text).is_ok()
}

/// A JSON value that is validated and not kept. Serde's own value of this kind accepts invalid UTF-8, invalid numbers
/// and unlimited nesting: a definer would refuse them later, without notice to the publisher.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self, A::Error> {
        while values.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while fields.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

/// Characters of a name that a level of a topic cannot contain, and their escapes. That of `%` itself is decoded last.
const ESCAPED: [(&str, &str); 4] = [("/", "%2F"), ("+", "%2B"), ("#", "%23"), ("%", "%25")];

/// The name in a level of a topic: `%2F`, `%2B`, `%23` and `%25` are `/`, `+`, `#` and `%`, also with small letters, as
/// in the broker's addresses.
pub fn name_of(level: &str) -> String {
    let upper = level.replace("%2f", "%2F").replace("%2b", "%2B");
    ESCAPED.iter().fold(upper, |text, (plain, escape)| text.replace(escape, plain))
}

/// A name as a level of a topic.
pub fn level_of(name: &str) -> String {
    ESCAPED.iter().rev().fold(name.to_owned(), |text, (plain, escape)| text.replace(plain, escape))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(payloads: &[&str], properties: &[&str]) -> ContextTopics {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        ContextTopics::new("ctx", &owned(payloads), &owned(properties)).unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "reading returns this type")]
    fn context(node: &str, text: &str) -> Option<Said> {
        Some(Said::Context { node: node.into(), context: text.into() })
    }

    #[test]
    fn the_topics_of_the_core_say_whose_they_are() {
        let topics = topics(&[], &[]);
        assert_eq!(topics.filters(), ["ctx/context/+", "ctx/GroupAdvertisement/+"]);
        assert_eq!(topics.read("relay", "ctx/context/a%2Fb", None, b"{}".into()), context("a/b", "{}"));
        assert_eq!(topics.read("n", "ctx/context/n", None, Vec::new()), context("n", ""), "it has gone for good");
        let said = Said::Advertisement { definer: "mine".into(), payload: b"x".into() };
        assert_eq!(topics.read("c", "ctx/GroupAdvertisement/mine", None, b"x".into()), Some(said));
        assert_eq!(topics.read("c", "ctx/context/a/b", None, b"{}".into()), None);
        assert_eq!(topics.read("c", "other", None, b"{}".into()), None);
    }

    #[test]
    fn unusable_messages_are_known_on_core_topics_only() {
        let unusable = |topic: &str, text: &str| ContextTopics::is_unusable("a/ctx", topic, text.as_bytes());
        assert!(unusable("a/ctx/context/n", "[]") && !unusable("a/ctx/context/n", "{}"));
        assert!(
            !unusable("a/ctx/context/n", "") && !unusable("a/ctx/context/n/x", "[]") && !unusable("telemetry", "[]")
        );
        assert!(unusable("a/ctx/GroupAdvertisement/gd", "{}"));
        assert!(!unusable("a/ctx/GroupAdvertisement/gd", r#"{"definer":"gd","node":"n"}"#));
    }

    #[test]
    fn other_topics_name_the_node_or_mean_the_publisher() {
        let topics = topics(&["vehicle/{node}/position", "telemetry/#"], &["ctx/to/app/+/#"]);
        assert_eq!(topics.filters()[2..], ["vehicle/+/position", "telemetry/#", "ctx/to/app/+/#"]);
        let read = |topic: &str, carried, text: &str| topics.read("truck", topic, carried, text.into());
        assert_eq!(read("vehicle/7/position", None, r#"{"x":1}"#), context("7", r#"{"x":1}"#));
        assert_eq!(read("telemetry/engine/heat", None, "{}"), context("truck", "{}"));
        assert_eq!(read("telemetry", None, "{}"), context("truck", "{}"), "`#` also matches no level");
        for (topic, text) in [
            ("vehicle/7/position", "[1]"),
            ("vehicle/7/position", ""),
            ("vehicle/7", "{}"),
            ("vehicle//position", "{}"),
        ] {
            assert_eq!(read(topic, None, text), None, "{topic} {text}");
        }
        assert_eq!(read("ctx/to/app/dispatch", Some(r#"{"x":2}"#), "{}"), context("truck", r#"{"x":2}"#));
        assert_eq!(read("ctx/to/app/dispatch", None, "{}"), None, "there, only the user property counts");
        assert_eq!(topics.read("", "telemetry", None, b"{}".into()), None, "the broker itself is no node");
    }

    #[test]
    fn an_invalid_pattern_is_refused() {
        for wrong in ["", "$SYS/#", "a/#/b", "a+/b", "a/{node}/{node}", "{id}/x", "a{node}", &"x".repeat(513)] {
            assert!(ContextTopics::new("ctx", &[wrong.to_owned()], &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_nodes_go_through_levels_of_topics() {
        for name in ["truck-7", "a/b", "100%", "%2F", "+#", "a%252Fb"] {
            let level = level_of(name);
            assert!(!level.contains(['/', '+', '#']), "{level}");
            assert_eq!(name_of(&level), name);
            // As the broker reads them in addresses.
            assert_eq!(name_of(&level.replace("%2F", "%2f").replace("%2B", "%2b")), name);
        }
    }
}
