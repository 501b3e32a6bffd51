//! Requests of clients, and decisions about them.

use tidegate_mqtt::{QoS, TopicFilter, TopicName};

use crate::effect::RuleId;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Publish a message, or leave it as a will.
    Publish {
        /// The topic of the message.
        topic: TopicName<'a>,
        /// With which QoS.
        qos: QoS,
        /// Whether it is to be retained.
        retain: bool,
    },
    /// Subscribe. Of a shared subscription the filter behind the group counts.
    Subscribe {
        /// The filter.
        filter: TopicFilter<'a>,
        /// With which QoS at most.
        qos: QoS,
    },
    /// Receive a message because of a subscription.
    Receive {
        /// The message's topic.
        topic: TopicName<'a>,
    },
}

/// Whether it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may.
    pub allowed: bool,
    /// For an allowed subscription: whether some topics of the filter are not allowed, so that each message must be
    /// checked with [`Request::Receive`] before its delivery. If `false`, every such check would succeed.
    pub filtered: bool,
    /// The origin of the decision.
    pub by: DecidedBy,
}

impl Decision {
    pub(crate) const fn allow(by: DecidedBy) -> Self {
        Self { allowed: true, filtered: false, by }
    }

    pub(crate) const fn deny(by: DecidedBy) -> Self {
        Self { allowed: false, filtered: false, by }
    }
}

/// The origin of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// This rule; [`Rules::rule`](crate::Rules::rule) gives its file and line.
    Rule(RuleId),
    /// The client is a superuser.
    Superuser,
    /// The grants of its token or of an external authority ([`Grants`](crate::Grants)).
    Grants,
    /// No rule applied.
    Default,
}
