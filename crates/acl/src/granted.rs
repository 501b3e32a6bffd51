//! Grants compiled for one client, and their decisions.

use std::sync::Arc;

use tidegate_mqtt::QoS;

use crate::effect::{Effect, RuleId};
use crate::grants::Grants;
use crate::own::{Own, OwnTopics, names};
use crate::request::{DecidedBy, Decision, Request};
use crate::rule::Rule;
use crate::subject::Subject;
use crate::subscription::{Saying, Step, Walk};

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
