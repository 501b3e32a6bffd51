//! The will of a CONNECT packet.

use crate::property::{self, Property, PropertyReader};
use crate::reader::Reader;
use crate::writer::Sink;
use crate::{DecodeError, PayloadFormat, PropertyId, PropertyOwner, QoS, TopicName, UserProperties, Version};

/// The message that the server publishes when a connection ends without a farewell ([MQTT-3.1.2-8]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// The topic to which the message is published.
    pub topic: TopicName<'a>,
    /// The message itself.
    pub payload: &'a [u8],
    /// The Quality of Service of the message ([MQTT-3.1.2-12]).
    pub qos: QoS,
    /// Whether the message is published as a retained one ([MQTT-3.1.2-14], [MQTT-3.1.2-15]).
    pub retain: bool,
    /// The properties; empty before MQTT 5.0.
    pub properties: WillProperties<'a>,
}

impl<'a> Will<'a> {
    pub(super) fn read(version: Version, qos: QoS, retain: bool, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let properties =
            if version.is_v5() { WillProperties::decode(reader.property_block()?)? } else { WillProperties::default() };
        Ok(Self {
            topic: reader.topic_name("will topic")?,
            payload: reader.data("will payload")?,
            qos,
            retain,
            properties,
        })
    }

    pub(super) fn write(&self, version: Version, sink: &mut dyn Sink) {
        if version.is_v5() {
            sink.properties(|sink| self.properties.write(sink));
        }
        sink.string("will topic", self.topic.as_str());
        sink.data("will payload", self.payload);
    }
}

/// The Will Properties (section 3.1.3.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct WillProperties<'a> {
    /// Will Delay Interval: how long after the connection the will is published, in seconds
    /// ([MQTT-3.1.3-9]); absent: 0.
    pub delay_interval: Option<u32>,
    /// The Payload Format Indicator.
    pub payload_format: Option<PayloadFormat>,
    /// Message Expiry Interval: how long the message is worth delivering once it is published, in seconds.
    pub message_expiry: Option<u32>,
    /// The type of the payload, often a MIME type.
    pub content_type: Option<&'a str>,
    /// The topic of the response.
    pub response_topic: Option<TopicName<'a>>,
    /// Identifies the request that a response answers.
    pub correlation_data: Option<&'a [u8]>,
    /// Pairs of the publisher's own, to be passed on in their order ([MQTT-3.1.3-10]).
    pub user_properties: UserProperties<'a>,
    /// The bytes of all properties as they were received, without their length. Empty in a packet that is
    /// built to be sent, and not looked at when encoding.
    pub raw: &'a [u8],
}

/// Compares the values of the properties. `raw` may differ, since properties have no order.
impl PartialEq for WillProperties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.delay_interval == other.delay_interval
            && self.payload_format == other.payload_format
            && self.message_expiry == other.message_expiry
            && self.content_type == other.content_type
            && self.response_topic == other.response_topic
            && self.correlation_data == other.correlation_data
            && self.user_properties == other.user_properties
    }
}

impl Eq for WillProperties<'_> {}

impl<'a> WillProperties<'a> {
    /// Decodes and checks the properties in `block`, which is without its length.
    ///
    /// # Errors
    ///
    /// When a property is malformed, does not belong to a will, is there twice though it may not be, or has
    /// a value outside its range.
    pub fn decode(block: &'a [u8]) -> Result<Self, DecodeError> {
        let mut properties = Self { user_properties: UserProperties::from_block(block), raw: block, ..Self::default() };
        let mut reader = PropertyReader::new(block, PropertyOwner::Will);
        while let Some(property) = reader.next()? {
            match property {
                Property::WillDelayInterval(seconds) => properties.delay_interval = Some(seconds),
                Property::PayloadFormatIndicator(format) => {
                    properties.payload_format = Some(format);
                }
                Property::MessageExpiryInterval(seconds) => {
                    properties.message_expiry = Some(seconds);
                }
                Property::ContentType(text) => properties.content_type = Some(text),
                Property::ResponseTopic(topic) => properties.response_topic = Some(topic),
                Property::CorrelationData(data) => properties.correlation_data = Some(data),
                // User Properties are read from the block on demand. The reader rejects all others.
                _ => {}
            }
        }
        Ok(properties)
    }

    /// Appends the bytes of the properties that belong to the message, in their order: all but the Will
    /// Delay Interval and the Message Expiry Interval (which has to be reduced).
    pub fn copy_forwardable(&self, out: &mut Vec<u8>) {
        property::copy_without(self.raw, NOT_FORWARDED, out);
    }

    /// As [`WillProperties::copy_forwardable`], and without User Properties of these names.
    pub fn copy_forwardable_without(&self, user_properties: &[&str], out: &mut Vec<u8>) {
        property::copy_without_pairs(self.raw, NOT_FORWARDED, user_properties, out);
    }

    fn write(&self, sink: &mut dyn Sink) {
        sink.optional(self.delay_interval, Property::WillDelayInterval);
        sink.optional(self.payload_format, Property::PayloadFormatIndicator);
        sink.optional(self.message_expiry, Property::MessageExpiryInterval);
        sink.optional(self.content_type, Property::ContentType);
        sink.optional(self.response_topic, Property::ResponseTopic);
        sink.optional(self.correlation_data, Property::CorrelationData);
        sink.user_properties(&self.user_properties);
    }
}

/// Properties of the will itself, or recalculated when it is published.
const NOT_FORWARDED: &[PropertyId] = &[PropertyId::WillDelayInterval, PropertyId::MessageExpiryInterval];
