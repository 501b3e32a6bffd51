//! One rule: its clients, its actions and topics, and its effect.

use std::fmt;
use std::sync::Arc;

use tidegate_mqtt::QoS;

use crate::effect::{Effect, QosSet, Subscribing};
use crate::pattern::Pattern;
use crate::request::Request;

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
    pub(crate) subscribe: bool,
    /// Receiving the messages of a subscription.
    pub(crate) receive: bool,
}

impl Actions {
    pub(crate) const ALL: Self = Self { publish: true, subscribe: true, receive: true };
}

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

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(name) => f.write_str(name),
            Self::Beginning(beginning) => write!(f, "{beginning}*"),
        }
    }
}

impl Name {
    /// Reads `text` or `beginning*`.
    pub(crate) fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(beginning) => Self::Beginning(beginning.into()),
            None => Self::Exactly(text.into()),
        }
    }

    pub(crate) fn is(&self, value: &str) -> bool {
        match self {
            Self::Exactly(name) => **name == *value,
            Self::Beginning(beginning) => value.starts_with(&**beginning),
        }
    }
}
