//! The settings of queues, priorities and dead letters of an engine, from the configuration.

use tidegate_engine as engine;
use tidegate_mqtt::{TopicFilter, TopicName};

use super::finding::Findings;
use super::origins::Origins;
use super::path::KeyPath;
use super::sections::waiting::{
    DEAD_LETTER_REASONS, DEAD_LETTER_REASONS_IF_NAMED, DeadLetters, LevelSource, Overflow, Priority,
};
use super::value::Problem;

/// Rules that a section may have: each is looked at for every message that waits.
const MAX_RULES: usize = 64;

/// The rules for the queues of some clients or topics.
pub(super) fn overflow_rules(overflow: &[Overflow]) -> Vec<engine::OverflowRule> {
    let rule = |rule: &Overflow| engine::OverflowRule {
        clients: rule.clients.clone(),
        filter: Some(rule.filter.clone()).filter(|filter| filter != "#"),
        policy: rule.policy,
        max_messages: Some(rule.max_messages).filter(|max| *max != 0),
        max_bytes: Some(rule.max_bytes.0).filter(|max| *max != 0),
    };
    overflow.iter().map(rule).collect()
}

/// The rules for messages that go before others.
pub(super) fn priority_rules(priority: &[Priority]) -> Vec<engine::PriorityRule> {
    let rule = |rule: &Priority| engine::PriorityRule {
        filter: rule.filter.clone(),
        source: match rule.source {
            LevelSource::Property => engine::PrioritySource::Property,
            LevelSource::Fixed => engine::PrioritySource::Fixed(rule.level),
        },
        default: rule.level,
    };
    priority.iter().map(rule).collect()
}

impl DeadLetters {
    /// The topic for dropped messages, if there is one.
    pub fn settings(&self, shards: u16) -> Option<engine::DeadLetter> {
        let names = &self.reasons.0;
        let by_default = |name: &str| names.is_empty() && DEAD_LETTER_REASONS.contains(&name);
        let wanted = |name: &str| by_default(name) || names.iter().any(|one| one == name);
        let reasons = engine::Reason::ALL.iter().copied().filter(|reason| wanted(reason.label())).collect();
        let max_rate = self.max_rate.div_ceil(u32::from(shards.max(1)));
        let prefix = self.topic.clone();
        Some(engine::DeadLetter { prefix, max_rate, reasons }).filter(|letters| !letters.prefix.is_empty())
    }
}

fn is_known(reason: &str) -> bool {
    DEAD_LETTER_REASONS.contains(&reason) || DEAD_LETTER_REASONS_IF_NAMED.contains(&reason)
}

/// Checks filters, topics and names of reasons.
pub(super) fn check(
    overflow: &[Overflow],
    priority: &[Priority],
    dead_letter: &DeadLetters,
    origins: &Origins,
    findings: &mut Findings,
) {
    for (section, count) in [("overflow", overflow.len()), ("priority", priority.len())] {
        if count > MAX_RULES {
            let source = origins.source(&KeyPath { section, index: MAX_RULES, key: "filter" }).clone();
            findings.push(Problem::new(format!("there are {count} [[{section}]]; at most {MAX_RULES} may be")), source);
        }
    }
    let overflow = overflow.iter().map(|rule| &rule.filter).enumerate();
    let priority = priority.iter().map(|rule| &rule.filter).enumerate();
    let filters = overflow.map(|(index, filter)| ("overflow", index, filter));
    for (section, index, filter) in filters.chain(priority.map(|(index, filter)| ("priority", index, filter))) {
        let valid = TopicFilter::new(filter).is_ok_and(|filter| filter.shared().is_none());
        if !valid {
            let path = KeyPath { section, index, key: "filter" };
            let problem = Problem::new(format!("`{path}` must be a topic filter, not {filter:?}"));
            let hint = "`#` has to be last and alone in its level, `+` alone in its level";
            findings.push(problem.hint(hint), origins.source(&path).clone());
        }
    }
    let topic = &dead_letter.topic;
    if !topic.is_empty() && TopicName::new(topic).is_err() {
        let problem = Problem::new(format!("`dead_letter.topic` must be a topic name, not {topic:?}"));
        findings.push(
            problem.hint("a topic name has no `+` and no `#`"),
            origins.source_of("dead_letter", "topic").clone(),
        );
    }
    for name in dead_letter.reasons.0.iter().filter(|name| !is_known(name)) {
        let problem = Problem::new(format!("`dead_letter.reasons` names {name:?}, which has no message"));
        let names = [DEAD_LETTER_REASONS_IF_NAMED, DEAD_LETTER_REASONS].concat();
        let hint = format!("names are {}", names.join(", "));
        findings.push(problem.hint(hint), origins.source_of("dead_letter", "reasons").clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileText;
    use crate::{Config, Inputs};

    #[test]
    fn every_reason_for_a_dead_letter_is_one() {
        let labels: Vec<&str> = engine::Reason::ALL.iter().map(|reason| reason.label()).collect();
        for name in DEAD_LETTER_REASONS.iter().chain(DEAD_LETTER_REASONS_IF_NAMED) {
            assert!(labels.contains(name), "{name}");
        }
        let config = Config::default();
        assert_eq!(config.dead_letter.settings(2), None);
        let of = |reasons: &str| load(&format!("[dead_letter]\ntopic = \"D\"\nreasons = {reasons}\n"));
        let reasons = of("[]").unwrap().dead_letter.settings(1).unwrap().reasons;
        assert_eq!(reasons.len(), DEAD_LETTER_REASONS.len(), "an empty list is all of the default");
        let reasons = of("[\"offline_qos0\"]").unwrap().dead_letter.settings(1).unwrap().reasons;
        assert_eq!(reasons, [engine::Reason::OfflineQos0]);
        assert!(of("[\"no_such_reason\"]").is_err());
    }

    fn load(text: &str) -> Result<Config, String> {
        let file = FileText::new("tidegate.toml", text);
        Config::load(Inputs { file: Some(file), ..Inputs::default() }).map_err(|findings| findings.to_string())
    }

    #[test]
    fn rules_reach_the_engine_in_their_order() {
        use engine::{OverflowPolicy, PrioritySource, Reason};

        let config = load(
            "[[overflow]]\nclients = \"dash-*\"\npolicy = \"keep-last\"\n\
             [[overflow]]\nfilter = \"bill/#\"\npolicy = \"reject\"\nmax_messages = 7\n\
             [[priority]]\nfilter = \"alarm/#\"\nsource = \"fixed\"\nlevel = 9\n[[priority]]\nlevel = 3\n\
             [dead_letter]\ntopic = \"$DEAD\"\nmax_rate = 9\nreasons = [\"message_expired\"]\n",
        );
        let settings = config.unwrap().engine_settings(2);
        let policies: Vec<_> = settings.overflow_rules.iter().map(|rule| (rule.policy, rule.max_messages)).collect();
        assert_eq!(policies, [(OverflowPolicy::KeepLast, None), (OverflowPolicy::Reject, Some(7))]);
        let sources: Vec<_> = settings.priority.iter().map(|rule| (rule.source, rule.default)).collect();
        assert_eq!(sources, [(PrioritySource::Fixed(9), 9), (PrioritySource::Property, 3)]);
        let letters = settings.dead_letter.unwrap();
        assert_eq!((letters.prefix.as_str(), letters.max_rate), ("$DEAD", 5));
        assert_eq!(letters.reasons, [Reason::MessageExpired]);
    }

    #[test]
    fn rates_of_listeners_are_divided_between_shards() {
        let text = "[[listener]]\naddress = \"127.0.0.1:0\"\nmax_message_rate = 10\nmax_total_message_rate = 100\n\
                    max_total_byte_rate = \"4KiB\"\n";
        let settings = load(text).unwrap().engine_settings(4);
        let listener = &settings.listeners[0];
        assert_eq!((listener.max_message_rate, listener.max_total_message_rate), (10, 25));
        assert_eq!(listener.max_total_byte_rate, 1024);
    }

    #[test]
    fn slips_are_said_with_their_place() {
        for (text, said) in [
            ("[[overflow]]\nfilter = \"a/#/b\"", "`overflow.0.filter` must be a topic filter"),
            ("[[priority]]\n[[priority]]\nfilter = \"$share/g/a\"", "`priority.1.filter` must be a topic filter"),
            ("[[priority]]\nlevel = 10", "`priority.0.level` must be 0 to 9"),
            ("[dead_letter]\ntopic = \"a/#\"", "`dead_letter.topic` must be a topic name"),
            ("[dead_letter]\nreasons = [\"bad_credentials\"]", "`dead_letter.reasons` names \"bad_credentials\""),
        ] {
            let findings = load(text).unwrap_err();
            assert!(findings.contains(said), "{findings}");
        }
        assert!(load(&"[[overflow]]\n".repeat(65)).unwrap_err().contains("there are 65 [[overflow]]; at most 64"));
    }
}
