//! The rules compiled for one client.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tidegate_mqtt::QoS;

use crate::class::Class;
use crate::effect::{Effect, RuleId};
use crate::granted::Granted;
use crate::own::{Own, OwnTopics, names};
use crate::pattern::Pattern;
use crate::request::{DecidedBy, Decision, Request};
use crate::rule::Rule;
use crate::rules::Rules;
use crate::subject::Subject;
use crate::subscription::{Saying, Step, Walk};
use crate::trie::Trie;

/// Topics of a client's own that are compared one by one; more are indexed.
const OWN_UNINDEXED: usize = 16;

/// Number of classes at which unused ones are searched and dropped.
const CLASSES_BEFORE_SWEEP: usize = 64;

/// Compiles [`Compiled`] views, and shares equal parts between them. One for each thread.
#[derive(Debug)]
pub struct Compiler {
    rules: Arc<Rules>,
    classes: RefCell<Classes>,
}

#[derive(Debug)]
struct Classes {
    known: HashMap<Box<[u32]>, Weak<Class>>,
    sweep_at: usize,
}

/// The rules compiled for one client. Small; parts shared with other clients are counted once.
#[derive(Clone, Debug)]
pub struct Compiled {
    rules: Arc<Rules>,
    class: Arc<Class>,
    /// Topics that were filled in for this client, in the order of the rules.
    own: Box<[Own]>,
    /// Fields that few clients need.
    rare: Option<Box<Rare>>,
}

/// The topics of a client that has many of its own.
#[derive(Debug, Default)]
struct OwnIndex {
    publish: Trie,
    receive: Trie,
}

#[derive(Clone, Debug)]
struct Rare {
    superuser: bool,
    granted: Option<Granted>,
    index: Option<Arc<OwnIndex>>,
}

impl Compiler {
    /// For these rules.
    pub fn new(rules: Arc<Rules>) -> Self {
        let classes = Classes { known: HashMap::new(), sweep_at: CLASSES_BEFORE_SWEEP };
        Self { rules, classes: RefCell::new(classes) }
    }

    /// The rules that are compiled.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Sets of rules that are remembered, for tests and diagnosis: about as many as are in use, and never twice as
    /// many.
    pub fn classes(&self) -> usize {
        self.classes.borrow().known.len()
    }

    /// The view of one client. Compile it again when anything about the subject changes.
    pub fn compile(&self, subject: &Subject<'_>) -> Compiled {
        let applying =
            if subject.superuser || subject.granted.is_some() { Vec::new() } else { self.rules.applying(subject) };
        let mut own = Vec::new();
        let mut plain = Vec::new();
        for id in applying {
            let Some(rule) = self.rules.get(RuleId(id)) else { continue };
            if rule.topics.iter().any(Pattern::is_plain) {
                plain.push(id);
            }
            for pattern in rule.topics.iter().filter(|pattern| !pattern.is_plain()) {
                let topics = OwnTopics::fill(pattern, subject, rule.effect);
                own.extend(topics.map(|topics| Own { rule: RuleId(id), topics }));
            }
        }
        let class = self.classes.borrow_mut().of(&self.rules, plain);
        let index = (own.len() > OWN_UNINDEXED).then(|| Arc::new(OwnIndex::of(&self.rules, &own)));
        Compiled { rules: Arc::clone(&self.rules), class, own: own.into(), rare: Rare::of(subject, index) }
    }
}

impl Classes {
    fn of(&mut self, rules: &Rules, ids: Vec<u32>) -> Arc<Class> {
        if let Some(class) = self.known.get(ids.as_slice()).and_then(Weak::upgrade) {
            return class;
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, class| class.strong_count() > 0);
            self.sweep_at = (self.known.len() * 2).max(CLASSES_BEFORE_SWEEP);
        }
        let class = Arc::new(Class::new(rules, &ids));
        self.known.insert(ids.into(), Arc::downgrade(&class));
        class
    }
}

impl OwnIndex {
    fn of(rules: &Rules, own: &[Own]) -> Self {
        let mut index = Self::default();
        for (number, own) in (0..).zip(own) {
            let Some(rule) = rules.get(own.rule) else { continue };
            if rule.is_about_publishing() {
                index.publish.add(own.topics.as_topics(), number, true, rule.effect);
            }
            if rule.is_about_receiving() {
                index.receive.add(own.topics.as_topics(), number, false, rule.effect);
            }
        }
        index
    }
}

impl Rare {
    fn of(subject: &Subject<'_>, index: Option<Arc<OwnIndex>>) -> Option<Box<Self>> {
        if !subject.superuser && subject.granted.is_none() && index.is_none() {
            return None;
        }
        let granted = subject.granted.map(|grants| Granted::of(grants, subject));
        Some(Box::new(Self { superuser: subject.superuser, granted, index }))
    }

    fn decide(&self, request: &Request<'_>) -> Option<Decision> {
        if self.superuser {
            return Some(Decision::allow(DecidedBy::Superuser));
        }
        self.granted.as_ref().map(|granted| granted.decide(request))
    }
}

impl Compiled {
    /// Whether the client may do something. It does not allocate. For publishing and receiving, its time depends on the
    /// levels of the topic, not on the number of rules.
    pub fn decide(&self, request: &Request<'_>) -> Decision {
        if let Some(decision) = self.rare.as_ref().and_then(|rare| rare.decide(request)) {
            return decision;
        }
        match *request {
            Request::Publish { topic, qos, retain } => self.publish(topic.as_str(), qos, retain),
            Request::Receive { topic } => self.receive(topic.as_str()),
            Request::Subscribe { filter, qos } => self.subscribe(filter.proper().as_str(), qos),
        }
    }

    fn publish(&self, topic: &str, qos: QoS, retain: bool) -> Decision {
        let entries = &self.class.entries;
        let takes = |entry: u32| {
            entries
                .get(entry as usize)
                .is_some_and(|it| it.qos.has(qos) && it.retain.is_none_or(|wanted| wanted == retain))
        };
        let shared = self.class.publish.first(topic, u32::MAX, takes);
        let takes = |own: &Own| self.rules.get(own.rule).is_some_and(|rule| rule.takes(qos, retain));
        let own = match self.index() {
            Some(index) => index.publish.first(topic, u32::MAX, |own| self.own.get(own as usize).is_some_and(takes)),
            None => self.first_own(
                |own, effect| takes(own) && names(own.topics.as_topics(), topic, true, effect),
                Rule::is_about_publishing,
            ),
        };
        self.earlier_of(shared, own)
    }

    fn receive(&self, topic: &str) -> Decision {
        let shared = self.class.receive.first(topic, u32::MAX, |_| true);
        let own = match self.index() {
            Some(index) => index.receive.first(topic, u32::MAX, |_| true),
            None => self
                .first_own(|own, effect| names(own.topics.as_topics(), topic, false, effect), Rule::is_about_receiving),
        };
        self.earlier_of(shared, own)
    }

    fn index(&self) -> Option<&OwnIndex> {
        self.rare.as_ref()?.index.as_deref()
    }

    /// The first of the client's own topics that matches, of a rule that is about the action.
    fn first_own(&self, matches: impl Fn(&Own, Effect) -> bool, about: impl Fn(&Rule) -> bool) -> Option<u32> {
        let applies = |own: &Own| {
            let rule = self.rules.get(own.rule);
            rule.is_some_and(|rule| about(rule) && matches(own, rule.effect))
        };
        self.own.iter().position(applies).and_then(|place| u32::try_from(place).ok())
    }

    /// The decision of the earlier of two rules: a shared one and one of the client's own.
    fn earlier_of(&self, shared: Option<u32>, own: Option<u32>) -> Decision {
        let shared = shared.and_then(|entry| self.class.entries.get(entry as usize));
        let own = own.and_then(|own| self.own.get(own as usize));
        match (shared, own) {
            (Some(entry), own) if own.is_none_or(|own| entry.rule <= own.rule) => {
                entry.effect.decide(DecidedBy::Rule(entry.rule))
            }
            (_, Some(own)) => {
                let effect = self.rules.get(own.rule).map_or(Effect::Deny, |rule| rule.effect);
                effect.decide(DecidedBy::Rule(own.rule))
            }
            _ => self.rules.default_effect().decide(DecidedBy::Default),
        }
    }

    fn subscribe(&self, asked: &str, qos: QoS) -> Decision {
        let mut walk = Walk::new(asked);
        let mut own = self.own.iter().peekable();
        let mut shared = self.class.entries.iter().peekable();
        loop {
            let own_first = match (own.peek(), shared.peek()) {
                (Some(own), Some(shared)) => own.rule <= shared.rule,
                (own, _) => own.is_some(),
            };
            let (id, topics) = if own_first {
                let Some(own) = own.next() else { break };
                (own.rule, own.topics.as_topics())
            } else {
                let Some(entry) = shared.next() else { break };
                let pattern = self.rules.get(entry.rule).and_then(|rule| rule.topics.get(entry.topic as usize));
                let Some(topics) = pattern.and_then(Pattern::topics) else { continue };
                (entry.rule, topics)
            };
            let Some(rule) = self.rules.get(id) else { continue };
            let says = Saying {
                effect: rule.effect,
                topics,
                subscribes: rule.actions.subscribe && rule.qos.has(qos),
                receives: rule.is_about_receiving(),
                subscribing: rule.subscribing,
            };
            match walk.step(id, says) {
                Step::Allowed { filtered } => {
                    return Decision { filtered, ..Decision::allow(DecidedBy::Rule(id)) };
                }
                Step::Denied => return Decision::deny(DecidedBy::Rule(id)),
                Step::Some | Step::Nothing => {}
            }
        }
        walk.end(self.rules.default_effect())
    }
}

impl Effect {
    pub(crate) const fn decide(self, by: DecidedBy) -> Decision {
        match self {
            Self::Allow => Decision::allow(by),
            Self::Deny => Decision::deny(by),
        }
    }
}
