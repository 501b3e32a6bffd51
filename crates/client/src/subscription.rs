//! Subscriptions of the client.

use std::num::NonZeroU32;

use tidegate_mqtt::SubscriptionOptions;

use crate::TopicFilterBuf;

/// A SUBSCRIBE packet to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscribeRequest {
    /// The filters and their options; at least one. Before MQTT 5.0 the options are the QoS alone.
    pub subscriptions: Vec<(TopicFilterBuf, SubscriptionOptions)>,
    /// The number that messages for these subscriptions are to carry, at most 268,435,455 (MQTT 5.0).
    pub subscription_identifier: Option<NonZeroU32>,
    /// Pairs of a name and a value, in order (MQTT 5.0).
    pub user_properties: Vec<(String, String)>,
}

impl SubscribeRequest {
    /// The feature of the request that needs MQTT 5.0, if any.
    pub(crate) fn needs_v5(&self) -> Option<&'static str> {
        if self.subscription_identifier.is_some() || !self.user_properties.is_empty() {
            return Some("properties");
        }
        let mut options = self.subscriptions.iter().map(|(_, options)| options);
        let plain = options.all(|options| *options == SubscriptionOptions::new(options.qos));
        (!plain).then_some("subscription options other than the QoS")
    }
}

/// An UNSUBSCRIBE packet to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsubscribeRequest {
    /// The filters; at least one.
    pub filters: Vec<TopicFilterBuf>,
    /// Pairs of a name and a value, in order (MQTT 5.0).
    pub user_properties: Vec<(String, String)>,
}

/// A DISCONNECT packet to be sent. Before MQTT 5.0 it has no content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisconnectRequest {
    /// Have the server publish the will.
    pub with_will: bool,
    /// A new Session Expiry Interval, in seconds; it must stay 0 if it was 0 in the CONNECT packet
    /// (section 3.14.2.2.2).
    pub session_expiry_interval: Option<u32>,
    /// The Reason String, for people.
    pub reason_string: Option<String>,
    /// Pairs of a name and a value, in order.
    pub user_properties: Vec<(String, String)>,
}
