//! The policy and the bounds of a message in a queue.

use tidegate_mqtt::{TopicFilter, TopicName};

use crate::settings::{OverflowPolicy, OverflowRule, Settings};

/// The bounds of a queue for a certain message, and the policy beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub max_messages: usize,
    pub max_bytes: u64,
    pub policy: OverflowPolicy,
}

impl Bounds {
    /// True if a queue with these numbers of messages and bytes may take one more of this cost.
    #[inline]
    pub(crate) fn fits(&self, messages: usize, bytes: u64, cost: u64) -> bool {
        messages < self.max_messages && bytes.saturating_add(cost) <= self.max_bytes
    }

    /// True if a queue with these numbers of messages and bytes has room again for waiting publishers.
    pub(crate) fn has_room_again(&self, messages: usize, bytes: u64) -> bool {
        messages <= self.max_messages / 2 && bytes <= self.max_bytes / 2
    }
}

/// A rule that is ready for the path of a message: nothing of it is parsed there.
#[derive(Debug)]
struct Prepared {
    rule: OverflowRule,
    /// Whether the pattern of its clients is one client id.
    is_of_one: bool,
}

impl Prepared {
    /// Nothing for a rule whose filter is no topic filter: it fits no message.
    fn new(rule: &OverflowRule) -> Option<Self> {
        let mut rule = rule.clone();
        if let Some(filter) = &mut rule.filter {
            *filter = TopicFilter::new(filter).ok()?.proper().as_str().to_owned();
        }
        let is_of_one = !rule.clients.contains(['*', '?']);
        Some(Self { rule, is_of_one })
    }

    fn fits(&self, client_id: &str, topic: &str) -> bool {
        let fits_client =
            if self.is_of_one { self.rule.clients == client_id } else { matches_client(&self.rule.clients, client_id) };
        fits_client && self.rule.filter.as_ref().is_none_or(|filter| tidegate_mqtt::topic::matches(filter, topic))
    }
}

/// The rules, in their order.
#[derive(Debug)]
pub(crate) struct OverflowRules {
    rules: Vec<Prepared>,
    default: Bounds,
    /// Bounds of a queue in a store to which no rule applies.
    stored: Bounds,
    /// Whether a queue may have a result for a publisher, so that the publisher has to be known.
    tells_publisher: bool,
    /// Whether a queue may make publishers wait.
    blocks: bool,
}

impl OverflowRules {
    pub(crate) fn new(settings: &Settings) -> Self {
        let queue = &settings.queue;
        let default =
            Bounds { max_messages: queue.max_messages as usize, max_bytes: queue.max_bytes, policy: queue.overflow };
        let stored = Bounds {
            max_messages: queue.stored_max_messages.unwrap_or(queue.max_messages) as usize,
            max_bytes: queue.stored_max_bytes.unwrap_or(queue.max_bytes),
            policy: queue.overflow,
        };
        let has = |policy| queue.overflow == policy || settings.overflow_rules.iter().any(|rule| rule.policy == policy);
        let blocks = has(OverflowPolicy::Block);
        let tells_publisher = blocks || has(OverflowPolicy::Disconnect) || settings.limits.memory_ceiling != 0;
        let rules = settings.overflow_rules.iter().filter_map(Prepared::new).collect();
        Self { rules, default, stored, tells_publisher, blocks }
    }

    #[inline]
    pub(crate) fn tells_publisher(&self) -> bool {
        self.tells_publisher
    }

    #[inline]
    pub(crate) fn blocks(&self) -> bool {
        self.blocks
    }

    /// Bounds of a queue to which no rule applies.
    #[inline]
    pub(crate) fn default_bounds(&self) -> Bounds {
        self.default
    }

    /// Bounds for a message of `topic` in the queue of a client, which is in a store or not.
    #[inline]
    pub(crate) fn bounds(&self, client_id: &str, topic: &str, is_stored: bool) -> Bounds {
        let default = if is_stored { self.stored } else { self.default };
        if self.rules.is_empty() { default } else { self.find(client_id, topic, default) }
    }

    #[cold]
    fn find(&self, client_id: &str, topic: &str, default: Bounds) -> Bounds {
        let fitting = self.rules.iter().find(|rule| rule.fits(client_id, topic));
        let Some(Prepared { rule, .. }) = fitting else { return default };
        Bounds {
            max_messages: rule.max_messages.map_or(default.max_messages, |max| max as usize),
            max_bytes: rule.max_bytes.unwrap_or(default.max_bytes),
            policy: rule.policy,
        }
    }
}

/// Whether messages of a topic may be rejected for some client.
pub(crate) fn may_reject(settings: &Settings, topic: &str) -> bool {
    let rejects = |rule: &OverflowRule| rule.policy == OverflowPolicy::Reject && matches_topic(rule, topic);
    settings.queue.overflow == OverflowPolicy::Reject || settings.overflow_rules.iter().any(rejects)
}

fn matches_topic(rule: &OverflowRule, topic: &str) -> bool {
    let Some(filter) = &rule.filter else { return true };
    let (Ok(filter), Ok(name)) = (TopicFilter::new(filter), TopicName::new(topic)) else { return false };
    filter.matches(name)
}

/// Whether a client id fits a pattern. Takes time in the length of both at most multiplied.
pub(crate) fn matches_client(pattern: &str, client_id: &str) -> bool {
    let (mut pattern, mut rest) = (pattern.chars(), client_id.chars());
    // The positions behind the last `*`, and behind the text it matches.
    let mut again: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let before = rest.clone();
        match (pattern.next(), rest.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                rest = before;
                again = Some((pattern.clone(), rest.clone()));
            }
            (Some('?'), Some(_)) => {}
            (Some(wanted), Some(there)) if wanted == there => {}
            _ => {
                // The `*` takes one more.
                let Some((behind, shorter)) = again.as_mut() else { return false };
                if shorter.next().is_none() {
                    return false;
                }
                (pattern, rest) = (behind.clone(), shorter.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::QueueSettings;

    #[test]
    fn patterns_fit_as_a_person_reads_them() {
        for (pattern, fits, fits_not) in [
            ("*", &["", "a", "a/b+#"][..], &[][..]),
            ("sensor-*", &["sensor-", "sensor-1"], &["sensor", "a sensor-1"]),
            ("*-1", &["-1", "x-1", "-1-1"], &["-1x", "1"]),
            ("a?c", &["abc", "aéc"], &["ac", "abbc"]),
            ("a*b*c", &["abc", "axxbxbc"], &["ab", "acb"]),
            ("", &[""], &["a"]),
            ("+", &["+"], &["a"]),
        ] {
            for client_id in fits {
                assert!(matches_client(pattern, client_id), "{pattern:?} {client_id:?}");
            }
            for client_id in fits_not {
                assert!(!matches_client(pattern, client_id), "{pattern:?} {client_id:?}");
            }
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |clients: &str, filter: Option<&str>, policy, max_messages| OverflowRule {
            clients: clients.into(),
            filter: filter.map(Into::into),
            policy,
            max_messages,
            max_bytes: None,
        };
        let settings = Settings {
            overflow_rules: vec![
                rule("dash-*", Some("t/#"), OverflowPolicy::KeepLast, Some(5)),
                rule("dash-*", None, OverflowPolicy::DropOldest, None),
                rule("*", Some("bill/+"), OverflowPolicy::Reject, None),
            ],
            ..Settings::default()
        };
        let rules = OverflowRules::new(&settings);
        let bounds = |client, topic| rules.bounds(client, topic, false);
        assert_eq!(bounds("dash-1", "t/1").policy, OverflowPolicy::KeepLast);
        assert_eq!(bounds("dash-1", "t/1").max_messages, 5);
        assert_eq!(bounds("dash-1", "bill/1").policy, OverflowPolicy::DropOldest);
        assert_eq!(bounds("x", "bill/1").policy, OverflowPolicy::Reject);
        assert_eq!(bounds("x", "t/1"), rules.default);
        assert!(may_reject(&settings, "bill/1") && !may_reject(&settings, "bill"));
        assert!(!rules.tells_publisher());
    }

    #[test]
    fn a_stored_queue_has_bounds_of_its_own_unless_a_rule_says_so() {
        let rule = OverflowRule {
            clients: "dash-*".into(),
            filter: None,
            policy: OverflowPolicy::DropOldest,
            max_messages: Some(5),
            max_bytes: None,
        };
        let queue = QueueSettings {
            stored_max_messages: Some(1_000_000),
            stored_max_bytes: Some(1 << 30),
            ..QueueSettings::default()
        };
        let rules = OverflowRules::new(&Settings { queue, overflow_rules: vec![rule], ..Settings::default() });
        let of = |client, is_stored| {
            let bounds = rules.bounds(client, "t", is_stored);
            (bounds.max_messages, bounds.max_bytes)
        };
        assert_eq!((of("x", false), of("x", true)), ((10_000, 16 << 20), (1_000_000, 1 << 30)));
        assert_eq!((of("dash-1", false), of("dash-1", true)), ((5, 16 << 20), (5, 1 << 30)));
    }
}
