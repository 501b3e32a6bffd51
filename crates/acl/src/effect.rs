//! The effect of a rule, and its conditions: its place, its QoS levels, its answer to a SUBSCRIBE.

use tidegate_mqtt::QoS;

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
