//! One rule: its clients, its actions and topics, and its effect.

use std::fmt;
use std::sync::Arc;

use tidegate_mqtt::QoS;

use crate::pattern::Pattern;
use crate::request::Request;
use crate::subject::Subject;

/// The place of a rule among all rules; rules are asked in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

/// The effect of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// It is allowed.
    Allow,
    /// It is not.
    #[default]
    Deny,
}

/// The file and line of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRef {
    /// The file, as its name was given.
    pub file: Arc<str>,
    /// Its line, counted from 1.
    pub line: u32,
    /// The rule in one line.
    pub text: Box<str>,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// The actions that a rule covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    pub(crate) publish: bool,
    /// To subscribe.
    pub(crate) subscribe: bool,
    /// Receiving the messages of a subscription.
    pub(crate) receive: bool,
}

impl Actions {
    pub(crate) const ALL: Self = Self { publish: true, subscribe: true, receive: true };
}

/// A set of QoS levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QosSet(u8);

impl QosSet {
    pub(crate) const ANY: Self = Self(0b111);
    pub(crate) const NONE: Self = Self(0);

    /// The same and one more level.
    pub(crate) const fn with(self, qos: QoS) -> Self {
        Self(self.0 | 1 << qos as u8)
    }

    pub(crate) const fn has(self, qos: QoS) -> bool {
        self.0 & (1 << qos as u8) != 0
    }
}

/// How a rule answers to a SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscribing {
    /// By the whole filter: all its topics must be allowed, and none denied.
    Whole,
    /// By each message, as in Mosquitto: the subscription is allowed if some topics of the filter are.
    ByMessage,
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) place: RuleRef,
    pub(crate) effect: Effect,
    pub(crate) who: Who,
    pub(crate) actions: Actions,
    /// Only retained messages, or only other ones.
    pub(crate) retain: Option<bool>,
    pub(crate) qos: QosSet,
    pub(crate) subscribing: Subscribing,
    pub(crate) topics: Box<[Pattern]>,
}

impl Rule {
    /// Whether it asks for a retain flag or for a QoS, which a message under way to a subscriber does not have.
    fn asks_for_delivery(&self) -> bool {
        self.retain.is_some() || self.qos != QosSet::ANY
    }

    /// Whether it is about publishing.
    pub(crate) fn is_about_publishing(&self) -> bool {
        self.actions.publish
    }

    /// Whether it is about receiving. A denial of some QoS or of retained messages is about the request alone.
    pub(crate) fn is_about_receiving(&self) -> bool {
        self.actions.receive && (self.effect == Effect::Allow || !self.asks_for_delivery())
    }

    /// Whether a request's action, retain flag and QoS match this rule. It ignores the topic.
    pub(crate) fn is_about(&self, request: &Request<'_>) -> bool {
        match *request {
            Request::Publish { qos, retain, .. } => self.is_about_publishing() && self.takes(qos, retain),
            Request::Subscribe { qos, .. } => self.actions.subscribe && self.qos.has(qos),
            Request::Receive { .. } => self.is_about_receiving(),
        }
    }

    /// Whether a message's QoS and retain flag match this rule.
    pub(crate) fn takes(&self, qos: QoS, retain: bool) -> bool {
        self.qos.has(qos) && self.retain.is_none_or(|wanted| wanted == retain)
    }
}

/// The clients for which a rule holds: all conditions must be met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Who {
    /// One of these user names.
    pub(crate) users: Option<Box<[Name]>>,
    /// Whether the client is anonymous.
    pub(crate) anonymous: Option<bool>,
    /// Whether the client id or the user name holds a `+` or `#`.
    pub(crate) wild_name: bool,
    /// Rarely used conditions.
    pub(crate) more: Option<Box<More>>,
}

/// An attribute and its accepted values; one must be present.
pub(crate) type Attribute = (Box<str>, Box<[Name]>);

/// Further conditions.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    pub(crate) clients: Option<Box<[Name]>>,
    pub(crate) listeners: Option<Box<[Name]>>,
    pub(crate) tenants: Option<Box<[Name]>>,
    pub(crate) certificates: Option<Box<[Name]>>,
    /// All of these must be there.
    pub(crate) attributes: Vec<Attribute>,
}

/// A value that a condition asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// This one.
    Exactly(Box<str>),
    /// Any that begins so; written with `*` at its end.
    Beginning(Box<str>),
}

impl Name {
    /// Reads `text` or `beginning*`.
    pub(crate) fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(beginning) => Self::Beginning(beginning.into()),
            None => Self::Exactly(text.into()),
        }
    }

    fn is(&self, value: &str) -> bool {
        match self {
            Self::Exactly(name) => **name == *value,
            Self::Beginning(beginning) => value.starts_with(&**beginning),
        }
    }
}

fn one_of(names: Option<&[Name]>, value: Option<&str>) -> bool {
    names.is_none_or(|names| value.is_some_and(|value| names.iter().any(|name| name.is(value))))
}

/// Whether a name contains a wildcard of topic filters.
fn is_wild(name: &str) -> bool {
    name.contains(['+', '#'])
}

impl Who {
    /// The client's quality that the rule asks for and that it does not have, for people; `None` when the rule holds
    /// for it.
    pub(crate) fn lacks(&self, subject: &Subject<'_>) -> Option<&'static str> {
        if !one_of(self.users.as_deref(), subject.user_name) {
            return Some("it is for another user name");
        }
        if self.anonymous.is_some_and(|wanted| wanted != subject.user_name.is_none()) {
            return Some(if subject.user_name.is_none() {
                "it is for clients with a user name"
            } else {
                "it is for clients without a user name"
            });
        }
        if self.wild_name && !is_wild(subject.client_id) && !subject.user_name.is_some_and(is_wild) {
            return Some("neither client id nor user name holds a wildcard");
        }
        self.more.as_ref().and_then(|more| more.lacks(subject))
    }
}

impl More {
    fn lacks(&self, subject: &Subject<'_>) -> Option<&'static str> {
        if !one_of(self.clients.as_deref(), Some(subject.client_id)) {
            return Some("it is for another client id");
        }
        if !one_of(self.listeners.as_deref(), Some(subject.listener)) {
            return Some("it is for another listener");
        }
        if !one_of(self.tenants.as_deref(), Some(subject.tenant)) {
            return Some("it is for another tenant");
        }
        if !one_of(self.certificates.as_deref(), subject.certificate_cn) {
            return Some("it is for another certificate");
        }
        let has = |name: &str, values: &[Name]| {
            subject.attributes.iter().any(|(known, value)| known == name && values.iter().any(|it| it.is(value)))
        };
        let missing = self.attributes.iter().any(|(name, values)| !has(name, values));
        missing.then_some("an attribute that it asks for is missing or has another value")
    }
}
