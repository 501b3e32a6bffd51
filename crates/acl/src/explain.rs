//! The same decisions, made slowly and with reasons.

use crate::compile::Compiler;
use crate::effect::Effect;
use crate::own::names;
use crate::pattern::{Filled, Pattern};
use crate::request::{DecidedBy, Decision, Request};
use crate::rule::{Rule, RuleRef};
use crate::rules::Rules;
use crate::subject::Subject;
use crate::subscription::{Saying, Step, Topics, Walk};

/// A decision and how it came about.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// The decision.
    pub decision: Decision,
    /// The rule that decided, if one did.
    pub rule: Option<&'a RuleRef>,
    /// The rules that did not decide, in their order; all rules if none decided.
    pub passed_over: Vec<PassedOver<'a>>,
}

/// A rule that did not decide.
#[derive(Clone, Debug)]
pub struct PassedOver<'a> {
    /// The rule.
    pub rule: &'a RuleRef,
    /// Why not.
    pub why: RuleResult,
}

/// The result of a single rule for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleResult {
    /// It decides.
    Decides,
    /// It holds for others.
    OtherClient(&'static str),
    /// It is about another action, QoS or retain flag.
    OtherAction,
    /// None of its topics matches the request.
    OtherTopic,
    /// A value that it asks for is missing, empty or holds `+`, `#`, `/` or a null character, and it would allow.
    NoValue,
    /// It covers only a part of the filter's topics, so messages are checked one by one.
    SomeMessages,
}

impl RuleResult {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Decides => "it decides",
            Self::OtherClient(why) => why,
            Self::OtherAction => "it is about another action, QoS or retain flag",
            Self::OtherTopic => "it does not match",
            Self::NoValue => {
                "a value for its placeholder is missing, empty or holds a character with a meaning in topics"
            }
            Self::SomeMessages => "it is about some of the messages, which are looked at one by one",
        }
    }
}

impl Rules {
    /// Decides as a [`Compiled`](crate::Compiled) view would, and says why. Asks every rule; not for the way of a
    /// message.
    pub fn explain(&self, subject: &Subject<'_>, request: &Request<'_>) -> Explanation<'_> {
        let mut passed_over = Vec::new();
        if subject.superuser || subject.granted.is_some() {
            let decision = Compiler::new(std::sync::Arc::new(Self::default())).compile(subject).decide(request);
            return Explanation { decision, rule: None, passed_over };
        }
        let asked = match request {
            Request::Subscribe { filter, .. } => filter.proper().as_str(),
            Request::Publish { topic, .. } | Request::Receive { topic } => topic.as_str(),
        };
        let mut walk = Walk::new(asked);
        for (id, rule) in self.all() {
            let by = DecidedBy::Rule(id);
            let (result, decision) = match rule.who.lacks(subject) {
                Some(why) => (RuleResult::OtherClient(why), None),
                None => match request {
                    Request::Subscribe { qos, .. } => {
                        let step = ask_about_subscription(rule, id, subject, rule.qos.has(*qos), &mut walk);
                        match step {
                            Ok(Step::Allowed { filtered }) => {
                                (RuleResult::Decides, Some(Decision { filtered, ..Decision::allow(by) }))
                            }
                            Ok(Step::Denied) => (RuleResult::Decides, Some(Decision::deny(by))),
                            Ok(Step::Some) => (RuleResult::SomeMessages, None),
                            Ok(Step::Nothing) => (RuleResult::OtherTopic, None),
                            Err(why) => (why, None),
                        }
                    }
                    Request::Publish { .. } | Request::Receive { .. } => {
                        let result = about_message(rule, subject, request, asked);
                        (result, (result == RuleResult::Decides).then(|| rule.effect.decide(by)))
                    }
                },
            };
            if let Some(decision) = decision {
                return Explanation { decision, rule: Some(&rule.place), passed_over };
            }
            passed_over.push(PassedOver { rule: &rule.place, why: result });
        }
        let decision = match request {
            Request::Subscribe { .. } => walk.end(self.default_effect()),
            _ => self.default_effect().decide(DecidedBy::Default),
        };
        let rule = match decision.by {
            DecidedBy::Rule(id) => self.rule(id),
            _ => None,
        };
        Explanation { decision, rule, passed_over }
    }
}

/// The result, for a message, of a rule that holds for the client.
fn about_message(rule: &Rule, subject: &Subject<'_>, request: &Request<'_>, topic: &str) -> RuleResult {
    if !rule.is_about(request) {
        return RuleResult::OtherAction;
    }
    let publishing = matches!(request, Request::Publish { .. });
    let mut result = RuleResult::OtherTopic;
    for pattern in &rule.topics {
        let filled = pattern.fill(|it| subject.value(it), rule.effect);
        match topics(&filled, pattern) {
            Some(topics) if names(topics, topic, publishing, rule.effect) => return RuleResult::Decides,
            Some(_) => {}
            None => result = RuleResult::NoValue,
        }
    }
    result
}

/// The effect, on a subscription, of a rule that holds for the client; an error says why it has none.
fn ask_about_subscription(
    rule: &Rule,
    id: crate::RuleId,
    subject: &Subject<'_>,
    takes_qos: bool,
    walk: &mut Walk<'_>,
) -> Result<Step, RuleResult> {
    let (subscribes, receives) = (rule.actions.subscribe && takes_qos, rule.is_about_receiving());
    let filters = receives && rule.effect == Effect::Deny;
    if !(subscribes || filters) {
        return Err(RuleResult::OtherAction);
    }
    let mut outcome = Err(RuleResult::OtherTopic);
    for pattern in &rule.topics {
        let filled = pattern.fill(|it| subject.value(it), rule.effect);
        let Some(topics) = topics(&filled, pattern) else {
            outcome = outcome.or(Err(RuleResult::NoValue));
            continue;
        };
        let says = Saying { effect: rule.effect, topics, subscribes, receives, subscribing: rule.subscribing };
        match walk.step(id, says) {
            Step::Nothing => {}
            Step::Some => outcome = Ok(Step::Some),
            decided => return Ok(decided),
        }
    }
    outcome
}

fn topics<'a>(filled: &'a Filled<'_>, pattern: &Pattern) -> Option<Topics<'a>> {
    let text: &str = match filled {
        Filled::Plain(text) => text,
        Filled::Own(text) => text,
        Filled::Everything => return Some(Topics::Everything),
        Filled::Nothing => return None,
    };
    Some(if pattern.exact { Topics::Exactly(text) } else { Topics::Matched(text) })
}
