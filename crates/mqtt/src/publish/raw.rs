//! The hot path's view of a PUBLISH packet.

use super::{DUP, RETAIN};
use crate::reader::Reader;
use crate::{DecodeError, PacketId, PacketType, QoS, Version};

/// A PUBLISH packet that has been split into its parts and not looked into any further: the topic may be
/// ill-formed and the properties may be anything. A server that has met the same bytes of a topic before
/// need not check them again; see [`super::Publish::from_raw`] for all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPublish<'a> {
    /// The packet may have been sent before.
    pub dup: bool,
    /// The Quality of Service of the message.
    pub qos: QoS,
    /// RETAIN.
    pub retain: bool,
    /// The bytes of the Topic Name, unchecked; empty when a Topic Alias replaces it.
    pub topic: &'a [u8],
    /// There exactly when the QoS is 1 or 2 ([MQTT-2.2.1-2]).
    pub packet_id: Option<PacketId>,
    /// The bytes of the properties without their length, unchecked; empty before MQTT 5.0.
    pub properties: &'a [u8],
    /// The application message itself.
    pub payload: &'a [u8],
}

impl<'a> RawPublish<'a> {
    /// Splits the body. Checks that the parts fit, that the QoS is not 3 ([MQTT-3.3.1-4]), that DUP is not set with QoS
    /// 0 ([MQTT-3.3.1-2]) and that the Packet Identifier is not 0.
    ///
    /// # Errors
    ///
    /// When one of these does not hold.
    #[expect(clippy::inline_always, reason = "a separate call costs each message 36 instructions")]
    #[inline(always)]
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        let qos = QoS::from_bits(first_byte >> 1 & 0b11).ok_or(DecodeError::InvalidQos { field: "QoS of PUBLISH" })?;
        let dup = first_byte & DUP != 0;
        if dup && qos == QoS::AtMostOnce {
            return Err(DecodeError::DupWithQos0);
        }
        let mut reader = Reader::new(body);
        let topic = reader.data("topic name")?;
        let packet_id = match qos {
            QoS::AtMostOnce => None,
            _ => Some(reader.packet_id(PacketType::Publish)?),
        };
        let properties = if version.is_v5() { reader.property_block()? } else { &[] };
        Ok(Self { dup, qos, retain: first_byte & RETAIN != 0, topic, packet_id, properties, payload: reader.rest() })
    }
}
