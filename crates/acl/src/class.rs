//! The part of a view that is shared by all clients with the same rules: the rules without placeholders.

use crate::effect::{Effect, QosSet, RuleId};
use crate::rules::Rules;
use crate::subscription::Topics;
use crate::trie::Trie;

/// Rules without placeholders, indexed. Shared by all clients to which exactly these apply.
#[derive(Debug, Default)]
pub(crate) struct Class {
    /// One for each topic, in the order of the rules.
    pub(crate) entries: Box<[Entry]>,
    /// Entries that are about publishing.
    pub(crate) publish: Trie,
    /// Entries that are about receiving.
    pub(crate) receive: Trie,
}

/// One topic of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) rule: RuleId,
    /// Its place among the rule's topics.
    pub(crate) topic: u32,
    pub(crate) effect: Effect,
    pub(crate) qos: QosSet,
    pub(crate) retain: Option<bool>,
}

impl Class {
    /// Indexes the topics without placeholders of some rules, which come in their order.
    pub(crate) fn new(rules: &Rules, ids: &[u32]) -> Self {
        let mut class = Self::default();
        let mut entries = Vec::new();
        for id in ids.iter().map(|&id| RuleId(id)) {
            let Some(rule) = rules.get(id) else { continue };
            for (topic, pattern) in (0..).zip(&rule.topics) {
                let Some(topics) = pattern.topics() else { continue };
                let number = u32::try_from(entries.len()).unwrap_or(u32::MAX);
                if rule.is_about_publishing() {
                    class.publish.add(topics, number, true, rule.effect);
                }
                if rule.is_about_receiving() {
                    class.receive.add(topics, number, false, rule.effect);
                }
                entries.push(Entry { rule: id, topic, effect: rule.effect, qos: rule.qos, retain: rule.retain });
            }
        }
        class.entries = entries.into();
        class
    }
}

impl Trie {
    /// Adds the effect of a rule's topics on messages.
    pub(crate) fn add(&mut self, topics: Topics<'_>, entry: u32, publishing: bool, effect: Effect) {
        match topics {
            Topics::Everything => self.insert_everything(entry),
            Topics::Matched(filter) => self.insert(filter, entry),
            Topics::Exactly(filter) if names_messages(filter, publishing, effect) => self.insert(filter, entry),
            Topics::Exactly(_) => {}
        }
    }
}

/// Whether a topic of a rule for exact filters also decides about messages: about publishing when it has no wildcards,
/// about receiving the messages of a subscription that it allows.
pub(crate) fn names_messages(filter: &str, publishing: bool, effect: Effect) -> bool {
    if publishing { !filter.contains(['+', '#']) } else { effect == Effect::Allow }
}
