//! Application messages that a server sends.

use std::num::NonZeroU16;

use tidegate_mqtt::{PacketId, PayloadFormat, QoS};

use crate::TopicNameBuf;

/// The properties of a message that travel with it from its publisher to its receivers (MQTT 5.0; all absent
/// before).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageProperties {
    /// The Payload Format Indicator, as set by the publisher.
    pub payload_format: Option<PayloadFormat>,
    /// Message Expiry Interval, in seconds: for how long the message is worth delivering.
    pub message_expiry: Option<u32>,
    /// The type of the payload, often a MIME type.
    pub content_type: Option<String>,
    /// The topic of the response.
    pub response_topic: Option<TopicNameBuf>,
    /// Identifies the request that a response answers.
    pub correlation_data: Option<Vec<u8>>,
    /// Pairs of a name and a value, in order; names may repeat.
    pub user_properties: Vec<(String, String)>,
}

/// An application message that the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The topic of the message; a Topic Alias has been resolved.
    pub topic: TopicNameBuf,
    /// The application message itself.
    pub payload: Vec<u8>,
    /// The Quality of Service of this delivery.
    pub qos: QoS,
    /// The message was retained, or its publisher asked for that when the subscription says Retain As Published.
    pub retain: bool,
    /// The server may have sent the message before ([MQTT-3.3.1-1]).
    pub dup: bool,
    /// The Packet Identifier of this delivery; `None` at QoS 0.
    pub packet_id: Option<PacketId>,
    /// The properties that the publisher set.
    pub properties: MessageProperties,
    /// The identifiers of the subscriptions that match, in the server's order.
    pub subscription_identifiers: Vec<u32>,
    /// The Topic Alias that the server used or set, if any.
    pub topic_alias: Option<NonZeroU16>,
    /// The first value of the user property that [`Options::mark`](crate::Options::mark) names. `properties` has no
    /// property of that name.
    pub marked: Option<String>,
    /// The handle for [`Client::acknowledge`](crate::Client::acknowledge); `None` at QoS 0.
    pub delivery: Option<Delivery>,
}

impl Message {
    /// A message of QoS 0 that is not retained and has no properties.
    pub fn new(topic: TopicNameBuf, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            topic,
            payload: payload.into(),
            qos: QoS::AtMostOnce,
            retain: false,
            dup: false,
            packet_id: None,
            properties: MessageProperties::default(),
            subscription_identifiers: Vec::new(),
            topic_alias: None,
            marked: None,
            delivery: None,
        }
    }
}

/// One delivery of a message of QoS 1 or 2, to be acknowledged. It is valid on the connection that delivered the
/// message. On a later connection it has no effect, since the server delivers the message again there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub(crate) packet_id: PacketId,
    pub(crate) qos: QoS,
    pub(crate) connection: ConnectionNumber,
    /// Its position among the messages that were given on this connection and are not acknowledged.
    pub(crate) position: u64,
}

impl Delivery {
    /// Whether the message comes once more when the server resumes the session before this is acknowledged: at QoS 1.
    /// At QoS 2 the client remembers that it was given ([MQTT-4.4.0-1]).
    pub fn comes_again(self) -> bool {
        self.qos == QoS::AtLeastOnce
    }
}

/// The number of a connection of the client, counted from 1; 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionNumber(pub(crate) u64);
