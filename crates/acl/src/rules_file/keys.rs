//! The keys of a rule.

use std::sync::Arc;

use tidegate_document::{FileText, Keys};

use super::text::describe;
use super::values::{names, qos, retain};
use crate::effect::{Effect, QosSet, Subscribing};
use crate::limits::{MAX_TOPICS_PER_RULE, MAX_VALUES_PER_CONDITION};
use crate::pattern::Pattern;
use crate::rule::{Actions, Attribute, More, Rule, RuleRef, Who};

/// Reads one rule.
pub(super) fn rule(file: &FileText, name: &Arc<str>, keys: &mut Keys<'_>) -> Option<Rule> {
    let effect = effect(keys);
    let topics = topics(keys);
    let actions = actions(keys).unwrap_or(Actions::ALL);
    let who = who(keys);
    let retain = retain(keys);
    let qos = qos(keys).unwrap_or(QosSet::ANY);
    let (effect, (topics, written)) = (effect?, topics?);
    let line = u32::try_from(file.line_column(keys.offset()).line).unwrap_or(u32::MAX);
    let text = describe(effect, actions, &written, &who);
    Some(Rule {
        place: RuleRef { file: Arc::clone(name), line, text: text.into() },
        effect,
        who,
        actions,
        retain,
        qos,
        subscribing: Subscribing::Whole,
        topics: topics.into(),
    })
}

fn effect(keys: &mut Keys<'_>) -> Option<Effect> {
    let allow = keys.truth("allow").map(|truth| if truth { Effect::Allow } else { Effect::Deny });
    let effect = keys.word("effect", &[("allow", Effect::Allow), ("deny", Effect::Deny)]);
    match (keys.has("allow"), keys.has("effect")) {
        (true, true) => keys.refuse("effect", "says the same as `allow` once more", "keep one of them"),
        (false, false) => {
            let message = "the rule neither allows nor denies";
            keys.note(keys.offset(), message, "add `allow = true` or `allow = false`");
        }
        _ => {}
    }
    allow.or(effect)
}

/// The topics, and as they are written.
fn topics(keys: &mut Keys<'_>) -> Option<(Vec<Pattern>, Vec<String>)> {
    let (mut topics, mut written) = (Vec::new(), Vec::new());
    if !keys.has("topics") {
        let fix = "add `topics = [\"...\"]`; `\"#\"` is every topic not below `$`";
        keys.note(keys.offset(), "the rule has no topics", fix);
    }
    for (text, offset) in keys.texts_with_places("topics", MAX_TOPICS_PER_RULE)? {
        match Pattern::parse(&text) {
            Ok(pattern) => topics.push(pattern),
            Err(error) => keys.note(offset, error.to_string(), error.fix()),
        }
        written.push(text);
    }
    Some((topics, written))
}

fn actions(keys: &mut Keys<'_>) -> Option<Actions> {
    let mut actions = Actions::default();
    for (text, offset) in keys.texts_with_places("actions", MAX_VALUES_PER_CONDITION)? {
        match text.as_str() {
            "publish" => actions.publish = true,
            "subscribe" => {
                actions.subscribe = true;
                actions.receive = true;
            }
            "receive" => actions.receive = true,
            "all" => actions = Actions::ALL,
            other => {
                let fix = "the actions are \"publish\", \"subscribe\", \"receive\" and \"all\"";
                keys.note(offset, format!("{other:?} is no action"), fix);
            }
        }
    }
    Some(actions)
}

/// The conditions on clients.
fn who(keys: &mut Keys<'_>) -> Who {
    let more = More {
        clients: names(keys, "clients"),
        listeners: names(keys, "listeners"),
        tenants: names(keys, "tenants"),
        certificates: names(keys, "certificate"),
        attributes: keys.table("attributes", |keys| Some(attributes(keys))).unwrap_or_default(),
    };
    let asks = more.clients.is_some()
        || more.listeners.is_some()
        || more.tenants.is_some()
        || more.certificates.is_some()
        || !more.attributes.is_empty();
    Who {
        users: names(keys, "users"),
        anonymous: keys.truth("anonymous"),
        more: asks.then(|| Box::new(more)),
        ..Who::default()
    }
}

fn attributes(keys: &mut Keys<'_>) -> Vec<Attribute> {
    let all = keys.names();
    if all.is_empty() {
        keys.note(keys.offset(), "`attributes` is empty", "write `attributes = { role = \"admin\" }`");
    }
    if all.len() > MAX_VALUES_PER_CONDITION {
        let message = format!("`attributes` has more than {MAX_VALUES_PER_CONDITION} names");
        keys.note(keys.offset(), message, "split the rule");
        // Known, so that they are not reported once more.
        for name in &all {
            keys.leave(name);
        }
        return Vec::new();
    }
    all.into_iter().filter_map(|name| Some((name.as_str().into(), names(keys, &name)?))).collect()
}
