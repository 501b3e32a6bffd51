//! Packets that a client has received, kept beyond their buffer.

use std::fmt;

use tidegate_mqtt::{
    MAX_PACKET_SIZE, Packet, PacketId, PacketType, PayloadFormat, Publish, QoS, TopicName, Version, split_frame,
};

/// One packet from the server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    bytes: Vec<u8>,
    version: Version,
    /// The topic of a Topic Alias when the packet came.
    topic: Option<String>,
}

impl Arrival {
    pub(crate) fn new(bytes: Vec<u8>, version: Version) -> Self {
        Self { bytes, version, topic: None }
    }

    pub(crate) fn set_topic(&mut self, topic: String) {
        self.topic = Some(topic);
    }

    /// The message, when the packet is a PUBLISH.
    pub(crate) fn delivered(&self) -> Option<Delivered> {
        let Packet::Publish(publish) = self.packet() else { return None };
        Some(Delivered::new(&publish, self.topic.clone().expect("the topic of a PUBLISH")))
    }

    pub(crate) fn packet(&self) -> Packet<'_> {
        let frame = split_frame(&self.bytes, MAX_PACKET_SIZE).expect("a frame").expect("a whole frame");
        Packet::decode(self.version, &frame).unwrap_or_else(|error| panic!("the server sent a bad packet: {error}"))
    }

    /// The packet in a few words.
    pub(crate) fn summary(&self) -> String {
        let kind = self.packet_type();
        match self.packet() {
            Packet::Publish(publish) => {
                let start: String = String::from_utf8_lossy(publish.payload).chars().take(12).collect();
                let topic = self.topic.as_deref().unwrap_or_default();
                format!("{kind} {topic} {start} id {:?} dup {}", publish.packet_id.map(PacketId::get), publish.dup)
            }
            Packet::PubAck(ack) => format!("{kind} {}", ack.packet_id),
            Packet::PubRec(ack) => format!("{kind} {}", ack.packet_id),
            Packet::PubRel(ack) => format!("{kind} {}", ack.packet_id),
            Packet::PubComp(ack) => format!("{kind} {}", ack.packet_id),
            _ => kind.to_string(),
        }
    }

    /// Bytes of the packet as it was received.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn packet_type(&self) -> PacketType {
        self.packet().packet_type()
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.packet().fmt(f)
    }
}

/// A PUBLISH from the server, with the topic of its alias filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: QoS,
    pub retain: bool,
    pub dup: bool,
    pub id: Option<PacketId>,
    pub expiry: Option<u32>,
    pub subscription_ids: Vec<u32>,
    pub user_properties: Vec<(String, String)>,
    pub payload_format: Option<PayloadFormat>,
    pub content_type: Option<String>,
    pub response_topic: Option<String>,
    pub correlation_data: Option<Vec<u8>>,
    /// The alias in the packet, and whether the packet named the topic too.
    pub alias: Option<u16>,
    pub named: bool,
}

impl Delivered {
    fn new(publish: &Publish<'_>, topic: String) -> Self {
        let properties = &publish.properties;
        let pairs = properties.user_properties.iter();
        Self {
            topic,
            payload: publish.payload.to_vec(),
            qos: publish.qos,
            retain: publish.retain,
            dup: publish.dup,
            id: publish.packet_id,
            expiry: properties.message_expiry,
            subscription_ids: properties.subscription_identifiers.iter().collect(),
            user_properties: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            payload_format: properties.payload_format,
            content_type: properties.content_type.map(str::to_owned),
            response_topic: properties.response_topic.map(|topic| TopicName::as_str(topic).to_owned()),
            correlation_data: properties.correlation_data.map(<[u8]>::to_vec),
            alias: properties.topic_alias.map(std::num::NonZeroU16::get),
            named: publish.topic.is_some(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }
}
