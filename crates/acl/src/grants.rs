//! Rights that a token or an external authority grants to a client.

use std::sync::Arc;

use tidegate_mqtt::QoS;

use crate::effect::{Effect, QosSet, Subscribing};
use crate::pattern::Pattern;
use crate::rule::{Actions, Rule, RuleRef, Who};

/// Rights that a token or an external authority grants to a client: rules for this client alone, which replace all
/// others. The first rule that applies decides; without one, the request is denied.
#[derive(Clone, Debug)]
pub struct Grants {
    pub(crate) rules: Arc<[Rule]>,
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
