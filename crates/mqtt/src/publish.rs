//! PUBLISH: carries an application message, either way (section 3.3).

mod head;
mod properties;
mod raw;

pub use head::PublishHead;
pub use properties::PublishProperties;
pub use raw::RawPublish;

use crate::reader;
use crate::writer;
use crate::{DecodeError, EncodeError, MAX_PACKET_SIZE, PacketId, PacketType, QoS, TopicName, Version};

/// The bit of DUP in the first byte.
const DUP: u8 = 0b1000;
/// The bit of RETAIN in the first byte.
const RETAIN: u8 = 0b0001;

/// The first byte of a PUBLISH packet.
#[inline]
const fn first_byte(dup: bool, qos: QoS, retain: bool) -> u8 {
    PacketType::Publish.first_byte() | if dup { DUP } else { 0 } | qos.bits() << 1 | if retain { RETAIN } else { 0 }
}

/// A PUBLISH packet with all its fields checked. For the hot path see [`RawPublish`] (which only splits) and
/// [`PublishHead`] (which encodes all but the payload).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The packet may have been sent before ([MQTT-3.3.1-1]); never set with QoS 0 ([MQTT-3.3.1-2]).
    pub dup: bool,
    /// The Quality of Service of the message.
    pub qos: QoS,
    /// RETAIN: to a server, keep the message as the topic's retained one; to a client, it was kept so.
    pub retain: bool,
    /// The topic to which the message is published; `None` when a Topic Alias replaces it (MQTT 5.0 only).
    pub topic: Option<TopicName<'a>>,
    /// There exactly when the QoS is 1 or 2 ([MQTT-2.2.1-2]).
    pub packet_id: Option<PacketId>,
    /// The properties; empty before MQTT 5.0.
    pub properties: PublishProperties<'a>,
    /// The application message itself.
    pub payload: &'a [u8],
}

impl<'a> Publish<'a> {
    /// Decodes the body: the variable header and the payload.
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error; a Subscription Identifier passes, though a client
    /// must not send one ([MQTT-3.3.4-6]).
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_raw(&RawPublish::decode(version, first_byte, body)?, version)
    }

    /// Checks the fields that [`RawPublish::decode`] leaves unchecked: the Topic Name and the properties.
    ///
    /// # Errors
    ///
    /// For an invalid Topic Name or property, and for a packet with neither a Topic Name nor a Topic Alias.
    pub fn from_raw(raw: &RawPublish<'a>, version: Version) -> Result<Self, DecodeError> {
        Self::with_pairs(raw, version, |_, _| {})
    }

    /// As [`Publish::decode`], and hands each User Property over in their order.
    ///
    /// # Errors
    ///
    /// As [`Publish::decode`]. Some User Properties may have been handed over then.
    pub fn decode_with_pairs(
        version: Version,
        first_byte: u8,
        body: &'a [u8],
        pair: impl FnMut(&'a str, &'a str),
    ) -> Result<Self, DecodeError> {
        Self::with_pairs(&RawPublish::decode(version, first_byte, body)?, version, pair)
    }

    #[inline]
    fn with_pairs(
        raw: &RawPublish<'a>,
        version: Version,
        pair: impl FnMut(&'a str, &'a str),
    ) -> Result<Self, DecodeError> {
        let properties = if version.is_v5() {
            PublishProperties::decode_with_pairs(raw.properties, pair)?
        } else {
            PublishProperties::default()
        };
        let topic = match (raw.topic.is_empty(), properties.topic_alias) {
            (false, _) => Some(reader::topic_name(raw.topic, "topic name")?),
            (true, Some(_)) => None,
            (true, None) => return Err(DecodeError::MissingTopic),
        };
        Ok(Self {
            dup: raw.dup,
            qos: raw.qos,
            retain: raw.retain,
            topic,
            packet_id: raw.packet_id,
            properties,
            payload: raw.payload,
        })
    }

    /// Appends the packet. Before MQTT 5.0 the properties are left out. DUP is not set with QoS 0.
    ///
    /// # Errors
    ///
    /// When a Packet Identifier (QoS 1 and 2) or a topic is missing, or a field cannot be encoded.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_within(version, MAX_PACKET_SIZE, out)
    }

    /// As [`Publish::encode`], for a receiver that takes packets of at most `max_packet_size` bytes. Nothing
    /// in the packet may be left out, so a message that is too large is not sent ([MQTT-3.1.2-25]).
    ///
    /// # Errors
    ///
    /// As [`Publish::encode`], and when the packet is too large.
    pub fn encode_within(&self, version: Version, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let missing = |field| EncodeError::MissingField { packet: PacketType::Publish, field };
        let at_most_once = self.qos == QoS::AtMostOnce;
        if !at_most_once && self.packet_id.is_none() {
            return Err(missing("packet identifier"));
        }
        let aliased = version.is_v5() && self.properties.topic_alias.is_some();
        if self.topic.is_none() && !aliased {
            return Err(missing("topic name"));
        }
        let first_byte = first_byte(self.dup && !at_most_once, self.qos, self.retain);
        writer::packet(first_byte, max_packet_size, out, |sink| {
            sink.string("topic name", self.topic.map_or("", TopicName::as_str));
            if let Some(packet_id) = self.packet_id.filter(|_| !at_most_once) {
                sink.packet_id(packet_id);
            }
            if version.is_v5() {
                sink.properties(|sink| self.properties.write(sink));
            }
            sink.bytes(self.payload);
        })
    }
}
