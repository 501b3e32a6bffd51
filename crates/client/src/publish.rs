//! Messages that the client publishes.

use std::num::NonZeroU16;

use tidegate_mqtt::{PacketId, Publish as PublishPacket, PublishProperties, QoS, UserProperties, Version};

use crate::{MessageProperties, PublishError, TopicNameBuf};

/// A message to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The topic.
    pub topic: TopicNameBuf,
    /// The application message itself.
    pub payload: Vec<u8>,
    /// The Quality of Service to deliver it to the server with.
    pub qos: QoS,
    /// Ask the server to keep the message as the topic's retained one; an empty payload removes that.
    pub retain: bool,
    /// The properties of the message; they need MQTT 5.0 unless empty.
    pub properties: MessageProperties,
    /// A number that replaces the topic on this connection, 1 to the server's Topic Alias Maximum. The first message
    /// that uses it carries the topic, later ones with the same topic the number alone. MQTT 5.0 only.
    pub topic_alias: Option<NonZeroU16>,
}

impl Publish {
    /// A message of QoS 0 that is not retained and has no properties.
    pub fn new(topic: TopicNameBuf, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            topic,
            payload: payload.into(),
            qos: QoS::AtMostOnce,
            retain: false,
            properties: MessageProperties::default(),
            topic_alias: None,
        }
    }

    /// The same message with this Quality of Service.
    #[must_use]
    pub fn with_qos(mut self, qos: QoS) -> Self {
        self.qos = qos;
        self
    }

    /// The same message, retained or not.
    #[must_use]
    pub fn with_retain(mut self, retain: bool) -> Self {
        self.retain = retain;
        self
    }

    /// The size of the message for a limit in bytes.
    pub(crate) fn cost(&self) -> usize {
        let properties = &self.properties;
        let pairs = properties.user_properties.iter();
        let user_properties: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
        self.topic.as_str().len()
            + self.payload.len()
            + properties.content_type.as_ref().map_or(0, String::len)
            + properties.correlation_data.as_ref().map_or(0, Vec::len)
            + user_properties
    }

    /// Whether the message uses a feature that needs MQTT 5.0.
    pub(crate) fn needs_v5(&self) -> bool {
        self.topic_alias.is_some() || self.properties != MessageProperties::default()
    }

    /// Appends the PUBLISH packet.
    pub(crate) fn encode(
        &self,
        version: Version,
        max_packet_size: u32,
        head: Head,
        out: &mut Vec<u8>,
    ) -> Result<(), PublishError> {
        let topic = match head.topic {
            TopicForm::AliasAlone(_) => None,
            TopicForm::Text | TopicForm::TextAndAlias(_) => Some(self.topic.as_name()?),
        };
        let user_properties = borrowed_pairs(&self.properties.user_properties);
        let packet = PublishPacket {
            dup: head.dup,
            qos: self.qos,
            retain: self.retain,
            topic,
            packet_id: head.packet_id,
            properties: PublishProperties {
                topic_alias: match head.topic {
                    TopicForm::Text => None,
                    TopicForm::TextAndAlias(alias) | TopicForm::AliasAlone(alias) => Some(alias),
                },
                ..self.properties.as_packet(&user_properties)?
            },
            payload: &self.payload,
        };
        Ok(packet.encode_within(version, max_packet_size, out)?)
    }
}

/// The fields that differ between two sendings of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) packet_id: Option<PacketId>,
    pub(crate) dup: bool,
    pub(crate) topic: TopicForm,
}

/// How a PUBLISH packet names its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopicForm {
    Text,
    TextAndAlias(NonZeroU16),
    AliasAlone(NonZeroU16),
}

/// User Properties as the codec takes them.
pub(crate) fn borrowed_pairs(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

impl MessageProperties {
    /// The properties as the codec takes them.
    pub(crate) fn as_packet<'a>(
        &'a self,
        user_properties: &'a [(&'a str, &'a str)],
    ) -> Result<PublishProperties<'a>, PublishError> {
        let response_topic = self.response_topic.as_ref();
        Ok(PublishProperties {
            payload_format: self.payload_format,
            message_expiry: self.message_expiry,
            content_type: self.content_type.as_deref(),
            response_topic: response_topic.map(TopicNameBuf::as_name).transpose()?,
            correlation_data: self.correlation_data.as_deref(),
            user_properties: UserProperties::new(user_properties),
            ..PublishProperties::default()
        })
    }
}
