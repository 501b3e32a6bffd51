//! What somebody wants to do, and what came of it.

use tidegate_mqtt::{QoS, TopicFilter, TopicName};

use crate::rule::RuleId;

/// Something that a client wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Publish a message, or leave it as a will.
    Publish {
        /// Where to.
        topic: TopicName<'a>,
        /// With which QoS.
        qos: QoS,
        /// Whether it is to be retained.
        retain: bool,
    },
    /// Subscribe. Of a shared subscription the filter behind the group counts.
    Subscribe {
        /// To what.
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
    /// For a subscription that is allowed: whether some of what the filter can match is not, so that each message must
    /// be asked for with [`Request::Receive`] before it is delivered. Where it is `false` every such request would be
    /// allowed.
    pub filtered: bool,
    /// What decided.
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

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// This rule; [`Rules::rule`](crate::Rules::rule) says where it stands.
    Rule(RuleId),
    /// The client is a superuser.
    Superuser,
    /// What its token or an external authority grants ([`Grants`](crate::Grants)), or does not.
    Grants,
    /// No rule applied.
    Default,
}
