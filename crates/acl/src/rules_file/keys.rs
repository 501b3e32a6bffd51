//! The keys of a rule.

use std::borrow::Cow;

use tidegate_units::suggestion::nearest;
use toml::Spanned;
use toml::de::DeValue;

use super::Fault;
use super::text::describe;
use super::values::{Value, names, qos, retain, texts, truth};
use crate::effect::{Effect, QosSet, Subscribing};
use crate::error::FilePosition;
use crate::limits::{MAX_TOPICS_PER_RULE, MAX_VALUES_PER_CONDITION};
use crate::pattern::Pattern;
use crate::rule::{Actions, Attribute, More, Rule, RuleRef, Who};

/// All keys, for "did you mean".
const KEYS: &[&str] = &[
    "allow",
    "effect",
    "topics",
    "actions",
    "users",
    "clients",
    "listeners",
    "tenants",
    "certificate",
    "anonymous",
    "attributes",
    "retain",
    "qos",
];

const ACTIONS: &str = "the actions are \"publish\", \"subscribe\", \"receive\" and \"all\"";

/// A rule while its keys are read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    effect: Option<Effect>,
    topics: Vec<Pattern>,
    /// The topics as they are written.
    written: Vec<String>,
    actions: Option<Actions>,
    who: Who,
    more: More,
    retain: Option<bool>,
    qos: Option<QosSet>,
}

impl Draft {
    /// Reads one key.
    pub(super) fn set(&mut self, name: &Spanned<Cow<'_, str>>, value: &Value<'_>) -> Result<(), Fault> {
        let key = name.get_ref().as_ref();
        match key {
            "allow" => {
                let effect = if truth(key, value)? { Effect::Allow } else { Effect::Deny };
                self.decide(effect, name)?;
            }
            "effect" => self.decide(effect(value)?, name)?,
            "topics" => self.topics(value)?,
            "actions" => self.actions = Some(actions(value)?),
            "users" => self.who.users = Some(names(key, value)?),
            "anonymous" => self.who.anonymous = Some(truth(key, value)?),
            "clients" => self.more.clients = Some(names(key, value)?),
            "listeners" => self.more.listeners = Some(names(key, value)?),
            "tenants" => self.more.tenants = Some(names(key, value)?),
            "certificate" => self.more.certificates = Some(names(key, value)?),
            "attributes" => self.more.attributes = attributes(value)?,
            "retain" => self.retain = retain(value)?,
            "qos" => self.qos = Some(qos(value)?),
            other => return Err(unknown(other, name.span().start)),
        }
        Ok(())
    }

    fn decide(&mut self, effect: Effect, name: &Spanned<Cow<'_, str>>) -> Result<(), Fault> {
        if self.effect.replace(effect).is_some() {
            let message = "`allow` and `effect` say the same thing twice";
            return Err(Fault::new(name.span().start, message, "keep one of them"));
        }
        Ok(())
    }

    fn topics(&mut self, value: &Value<'_>) -> Result<(), Fault> {
        for (text, offset) in texts("topics", value, MAX_TOPICS_PER_RULE)? {
            let pattern = Pattern::parse(text).map_err(|error| Fault::new(offset, error.to_string(), error.fix()))?;
            self.topics.push(pattern);
            self.written.push(text.to_owned());
        }
        Ok(())
    }

    /// The rule, if it is complete.
    pub(super) fn finish(mut self, place: &FilePosition, offset: usize) -> Result<Rule, Fault> {
        let Some(effect) = self.effect else {
            let message = "the rule neither allows nor denies";
            return Err(Fault::new(offset, message, "add `allow = true` or `allow = false`"));
        };
        if self.topics.is_empty() {
            let message = "the rule has no topics";
            return Err(Fault::new(offset, message, "add `topics = [\"...\"]`; `\"#\"` is every topic not below `$`"));
        }
        let more = std::mem::take(&mut self.more);
        let asks = more.clients.is_some()
            || more.listeners.is_some()
            || more.tenants.is_some()
            || more.certificates.is_some()
            || !more.attributes.is_empty();
        self.who.more = asks.then(|| Box::new(more));
        let actions = self.actions.unwrap_or(Actions::ALL);
        let text = describe(effect, actions, &self.written, &self.who);
        Ok(Rule {
            place: RuleRef { file: place.file.clone(), line: place.line, text: text.into() },
            effect,
            who: self.who,
            actions,
            retain: self.retain,
            qos: self.qos.unwrap_or(QosSet::ANY),
            subscribing: Subscribing::Whole,
            topics: self.topics.into(),
        })
    }
}

fn unknown(key: &str, offset: usize) -> Fault {
    let fix = match nearest(key, KEYS.iter().copied()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("the keys of a rule are {}", KEYS.join(", ")),
    };
    Fault::new(offset, format!("unknown key `{key}`"), fix)
}

fn effect(value: &Value<'_>) -> Result<Effect, Fault> {
    match value.get_ref() {
        DeValue::String(text) if text == "allow" => Ok(Effect::Allow),
        DeValue::String(text) if text == "deny" => Ok(Effect::Deny),
        _ => {
            let message = "`effect` must be \"allow\" or \"deny\"";
            Err(Fault::new(value.span().start, message, "write `effect = \"allow\"`"))
        }
    }
}

fn actions(value: &Value<'_>) -> Result<Actions, Fault> {
    let mut actions = Actions::default();
    for (text, offset) in texts("actions", value, MAX_VALUES_PER_CONDITION)? {
        match text {
            "publish" => actions.publish = true,
            "subscribe" => {
                actions.subscribe = true;
                actions.receive = true;
            }
            "receive" => actions.receive = true,
            "all" => actions = Actions::ALL,
            other => return Err(Fault::new(offset, format!("{other:?} is no action"), ACTIONS)),
        }
    }
    Ok(actions)
}

fn attributes(value: &Value<'_>) -> Result<Vec<Attribute>, Fault> {
    let fix = "write `attributes = { role = \"admin\" }`";
    let DeValue::Table(table) = value.get_ref() else {
        return Err(Fault::new(value.span().start, "`attributes` must be a table", fix));
    };
    if table.is_empty() {
        return Err(Fault::new(value.span().start, "`attributes` is empty", fix));
    }
    if table.len() > MAX_VALUES_PER_CONDITION {
        let message = format!("`attributes` has more than {MAX_VALUES_PER_CONDITION} names");
        return Err(Fault::new(value.span().start, message, "split the rule"));
    }
    table
        .iter()
        .map(|(name, value)| {
            let name = name.get_ref().as_ref();
            Ok((name.into(), names(name, value)?))
        })
        .collect()
}
