//! A message to be published, built like a sentence.

use std::num::NonZeroU16;

use tidegate_mqtt::{
    PacketId, PayloadFormat, Publish, PublishProperties, QoS, TopicName, UserProperties, Version, WillProperties,
};

/// A message that a client publishes, or leaves as its will.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: QoS,
    pub retain: bool,
    pub dup: bool,
    pub id: Option<PacketId>,
    pub expiry: Option<u32>,
    pub alias: Option<NonZeroU16>,
    pub user_properties: Vec<(String, String)>,
    pub payload_format: Option<PayloadFormat>,
    pub content_type: Option<String>,
    pub response_topic: Option<String>,
    pub correlation_data: Option<Vec<u8>>,
    /// Only for a will.
    pub delay: Option<u32>,
}

/// A message at QoS 0.
pub(crate) fn message(topic: &str, payload: impl AsRef<[u8]>) -> Message {
    Message {
        topic: topic.to_owned(),
        payload: payload.as_ref().to_vec(),
        qos: QoS::AtMostOnce,
        retain: false,
        dup: false,
        id: None,
        expiry: None,
        alias: None,
        user_properties: Vec::new(),
        payload_format: None,
        content_type: None,
        response_topic: None,
        correlation_data: None,
        delay: None,
    }
}

impl Message {
    pub(crate) fn qos(mut self, qos: QoS) -> Self {
        self.qos = qos;
        self
    }

    pub(crate) fn qos1(self) -> Self {
        self.qos(QoS::AtLeastOnce)
    }

    pub(crate) fn qos2(self) -> Self {
        self.qos(QoS::ExactlyOnce)
    }

    pub(crate) fn retain(mut self) -> Self {
        self.retain = true;
        self
    }

    pub(crate) fn dup(mut self) -> Self {
        self.dup = true;
        self
    }

    pub(crate) fn id(mut self, id: u16) -> Self {
        self.id = PacketId::new(id);
        self
    }

    /// Message Expiry Interval, seconds.
    pub(crate) fn expiry(mut self, seconds: u32) -> Self {
        self.expiry = Some(seconds);
        self
    }

    pub(crate) fn alias(mut self, alias: u16) -> Self {
        self.alias = NonZeroU16::new(alias);
        self
    }

    pub(crate) fn user(mut self, name: &str, value: &str) -> Self {
        self.user_properties.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn utf8(mut self) -> Self {
        self.payload_format = Some(PayloadFormat::Utf8);
        self
    }

    pub(crate) fn content_type(mut self, text: &str) -> Self {
        self.content_type = Some(text.to_owned());
        self
    }

    pub(crate) fn response(mut self, topic: &str, correlation: &[u8]) -> Self {
        self.response_topic = Some(topic.to_owned());
        self.correlation_data = Some(correlation.to_vec());
        self
    }

    /// Will Delay Interval, seconds.
    pub(crate) fn delay(mut self, seconds: u32) -> Self {
        self.delay = Some(seconds);
        self
    }

    /// The message in a few words.
    pub(crate) fn summary(&self) -> String {
        let start: String = String::from_utf8_lossy(&self.payload).chars().take(12).collect();
        format!("{} {start} id {:?}", self.topic, self.id.map(PacketId::get))
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.user_properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Encodes the PUBLISH packet; an empty topic is left to the alias.
    pub(crate) fn encode(&self, version: Version) -> Vec<u8> {
        let pairs = self.pairs();
        let topic = (!self.topic.is_empty()).then(|| TopicName::new(&self.topic).expect("a topic name"));
        let packet = Publish {
            dup: self.dup,
            qos: self.qos,
            retain: self.retain,
            topic,
            packet_id: self.id,
            properties: PublishProperties {
                payload_format: self.payload_format,
                message_expiry: self.expiry,
                topic_alias: self.alias,
                response_topic: self.response_topic.as_deref().map(|text| TopicName::new(text).expect("a topic name")),
                correlation_data: self.correlation_data.as_deref(),
                content_type: self.content_type.as_deref(),
                user_properties: UserProperties::new(&pairs),
                ..PublishProperties::default()
            },
            payload: &self.payload,
        };
        let mut bytes = Vec::new();
        packet.encode(version, &mut bytes).expect("a message that can be encoded");
        bytes
    }

    /// Calls `with` with the message as a will.
    pub(crate) fn as_will<T>(&self, with: impl FnOnce(tidegate_mqtt::Will<'_>) -> T) -> T {
        let pairs = self.pairs();
        with(tidegate_mqtt::Will {
            topic: TopicName::new(&self.topic).expect("a topic name"),
            payload: &self.payload,
            qos: self.qos,
            retain: self.retain,
            properties: WillProperties {
                delay_interval: self.delay,
                payload_format: self.payload_format,
                message_expiry: self.expiry,
                content_type: self.content_type.as_deref(),
                response_topic: self.response_topic.as_deref().map(|text| TopicName::new(text).expect("a topic name")),
                correlation_data: self.correlation_data.as_deref(),
                user_properties: UserProperties::new(&pairs),
                ..WillProperties::default()
            },
        })
    }
}
