//! Rights that a token or an external authority grants to a client.

use std::sync::Arc;

use tidegate_mqtt::QoS;

use crate::compile::{Own, OwnTopics, names};
use crate::pattern::Pattern;
use crate::request::{DecidedBy, Decision, Request};
use crate::rule::{Actions, Effect, QosSet, Rule, RuleId, RuleRef, Subscribing, Who};
use crate::subject::Subject;
use crate::subscription::{Saying, Step, Walk};

/// Rights that a token or an external authority grants to a client: rules for this client alone, which replace all
/// others. The first rule that applies decides; without one, the request is denied.
#[derive(Clone, Debug)]
pub struct Grants {
    rules: Arc<[Rule]>,
}

/// One of these rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedRule {
    /// Whether it allows or denies.
    pub effect: Effect,
    /// The action that it covers.
    pub action: GrantedAction,
    /// The topic filter. Besides the placeholders of a rules file, `%c` is the client id and `%u` the user name. With
    /// an invalid filter the rule allows no topic or denies every topic.
    pub filter: String,
    /// Whether a subscription to exactly this filter is meant.
    pub literal: bool,
    /// For which of QoS 0, 1 and 2 it holds.
    pub qos: [bool; 3],
    /// Only for messages that are to be retained, or only for others.
    pub retain: Option<bool>,
}

/// The action that a granted rule covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantedAction {
    /// Publishing.
    Publish,
    /// Subscribing, and receiving the messages of the subscription.
    Subscribe,
    /// Both.
    All,
}

impl Grants {
    /// These rules.
    pub fn new(granted: &[GrantedRule]) -> Self {
        let file: Arc<str> = "grants".into();
        Self { rules: (1..).zip(granted).filter_map(|(number, it)| rule(&file, number, it)).collect() }
    }

    /// Allows publishing and subscribing to these topics only.
    pub fn lists(publish: &[String], subscribe: &[String]) -> Self {
        let granted = |topics: &[String], action| -> Vec<GrantedRule> {
            let rule = |filter: &String| GrantedRule {
                effect: Effect::Allow,
                action,
                filter: filter.clone(),
                literal: false,
                qos: [true; 3],
                retain: None,
            };
            topics.iter().map(rule).collect()
        };
        Self::new(&[granted(publish, GrantedAction::Publish), granted(subscribe, GrantedAction::Subscribe)].concat())
    }
}

fn rule(file: &Arc<str>, line: u32, granted: &GrantedRule) -> Option<Rule> {
    let effect = granted.effect;
    let (publish, subscribe) = match granted.action {
        GrantedAction::Publish => (true, false),
        GrantedAction::Subscribe => (false, true),
        GrantedAction::All => (true, true),
    };
    let topics = match (Pattern::granted(&granted.filter, granted.literal), effect) {
        (Ok(pattern), _) => pattern,
        (Err(_), Effect::Allow) => return None,
        (Err(_), Effect::Deny) => Pattern::everything(),
    };
    let levels = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].into_iter().zip(granted.qos);
    Some(Rule {
        place: RuleRef { file: Arc::clone(file), line, text: granted.filter.as_str().into() },
        effect,
        who: Who::default(),
        actions: Actions { publish, subscribe, receive: subscribe },
        retain: granted.retain,
        qos: levels.filter(|(_, named)| *named).fold(QosSet::NONE, |set, (level, _)| set.with(level)),
        subscribing: Subscribing::Whole,
        topics: Box::new([topics]),
    })
}

/// Grants compiled for one client.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    rules: Arc<[Rule]>,
    own: Box<[Own]>,
}

impl Granted {
    pub(crate) fn of(grants: &Grants, subject: &Subject<'_>) -> Self {
        let mut own = Vec::new();
        for (id, rule) in (0..).map(RuleId).zip(grants.rules.iter()) {
            for pattern in &rule.topics {
                let topics = OwnTopics::fill(pattern, subject, rule.effect);
                own.extend(topics.map(|topics| Own { rule: id, topics }));
            }
        }
        Self { rules: Arc::clone(&grants.rules), own: own.into() }
    }

    fn all(&self) -> impl Iterator<Item = (&Own, &Rule)> {
        self.own.iter().filter_map(|own| Some((own, self.rules.get(own.rule.0 as usize)?)))
    }

    pub(crate) fn decide(&self, request: &Request<'_>) -> Decision {
        let (topic, publishing) = match request {
            Request::Publish { topic, .. } => (topic.as_str(), true),
            Request::Receive { topic } => (topic.as_str(), false),
            Request::Subscribe { filter, qos } => return self.subscribe(filter.proper().as_str(), *qos),
        };
        let decides = |(own, rule): &(&Own, &Rule)| {
            rule.is_about(request) && names(own.topics.as_topics(), topic, publishing, rule.effect)
        };
        let effect = self.all().find(decides).map_or(Effect::Deny, |(_, rule)| rule.effect);
        effect.decide(DecidedBy::Grants)
    }

    fn subscribe(&self, asked: &str, qos: QoS) -> Decision {
        let mut walk = Walk::new(asked);
        for (own, rule) in self.all() {
            let says = Saying {
                effect: rule.effect,
                topics: own.topics.as_topics(),
                subscribes: rule.actions.subscribe && rule.qos.has(qos),
                receives: rule.is_about_receiving(),
                subscribing: rule.subscribing,
            };
            match walk.step(own.rule, says) {
                Step::Allowed { filtered } => return Decision { filtered, ..Decision::allow(DecidedBy::Grants) },
                Step::Denied => return Decision::deny(DecidedBy::Grants),
                Step::Some | Step::Nothing => {}
            }
        }
        Decision::deny(DecidedBy::Grants)
    }
}
