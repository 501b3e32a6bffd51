//! Limits of a server.

use std::num::{NonZeroU16, NonZeroU32};

use tidegate_mqtt::{ConnAckProperties, MAX_PACKET_SIZE, QoS, ReasonCode, TopicFilter};

use crate::PublishError;

/// Limits of the server, by the CONNACK of the present connection. Before MQTT 5.0 there are none.
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are independent properties of CONNACK, each a flag there, too"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// How many messages of QoS 1 and 2 it takes at once.
    pub receive_maximum: u16,
    /// The largest packet that it takes, in bytes.
    pub maximum_packet_size: u32,
    /// The greatest Topic Alias that it accepts; 0 for none.
    pub topic_alias_maximum: u16,
    /// The greatest QoS of messages that it takes.
    pub maximum_qos: QoS,
    /// Whether it keeps retained messages.
    pub retain_available: bool,
    /// Whether filters may hold wildcards.
    pub wildcard_subscription_available: bool,
    /// Whether subscriptions may have identifiers.
    pub subscription_identifier_available: bool,
    /// Whether subscriptions may be shared.
    pub shared_subscription_available: bool,
}

impl ServerLimits {
    /// The limits of a server that names none.
    pub const NONE: Self = Self {
        receive_maximum: u16::MAX,
        maximum_packet_size: MAX_PACKET_SIZE,
        topic_alias_maximum: 0,
        maximum_qos: QoS::ExactlyOnce,
        retain_available: true,
        wildcard_subscription_available: true,
        subscription_identifier_available: true,
        shared_subscription_available: true,
    };

    pub(crate) fn from_connack(properties: &ConnAckProperties<'_>) -> Self {
        Self {
            receive_maximum: properties.receive_maximum.map_or(u16::MAX, NonZeroU16::get),
            maximum_packet_size: properties.maximum_packet_size.map_or(MAX_PACKET_SIZE, NonZeroU32::get),
            topic_alias_maximum: properties.topic_alias_maximum.unwrap_or(0),
            maximum_qos: properties.maximum_qos.unwrap_or(QoS::ExactlyOnce),
            retain_available: properties.retain_available.unwrap_or(true),
            wildcard_subscription_available: properties.wildcard_subscription_available.unwrap_or(true),
            subscription_identifier_available: properties.subscription_identifier_available.unwrap_or(true),
            shared_subscription_available: properties.shared_subscription_available.unwrap_or(true),
        }
    }

    /// Whether the server takes such a message, its size aside.
    pub(crate) fn check_publish(
        &self,
        qos: QoS,
        retain: bool,
        topic_alias: Option<NonZeroU16>,
    ) -> Result<(), PublishError> {
        if qos > self.maximum_qos {
            return Err(PublishError::QosNotSupported { maximum: self.maximum_qos });
        }
        if retain && !self.retain_available {
            return Err(PublishError::RetainNotSupported);
        }
        match topic_alias {
            Some(alias) if alias.get() > self.topic_alias_maximum => {
                Err(PublishError::TopicAliasTooGreat { alias: alias.get(), maximum: self.topic_alias_maximum })
            }
            _ => Ok(()),
        }
    }

    /// Why the server does not take a subscription to `filter`, if it does not.
    pub(crate) fn check_filter(&self, filter: TopicFilter<'_>) -> Result<(), ReasonCode> {
        if filter.shared().is_some() && !self.shared_subscription_available {
            return Err(ReasonCode::SharedSubscriptionsNotSupported);
        }
        if filter.has_wildcards() && !self.wildcard_subscription_available {
            return Err(ReasonCode::WildcardSubscriptionsNotSupported);
        }
        Ok(())
    }
}
