//! Encodes all of a PUBLISH packet but its payload, so that one encoding serves many receivers.

use super::first_byte;
use crate::{MAX_SUBSCRIPTION_IDENTIFIER, MAX_TOPIC_LEN, PropertyId, QoS, Version, varint};

/// All of a PUBLISH packet but its payload. Receivers with the same version, QoS and properties get the same bytes but
/// for the Packet Identifier. The caller patches it at the offset that [`PublishHead::encode`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishHead<'a> {
    /// The version of the receiver's connection. Before MQTT 5.0 the property fields are ignored.
    pub version: Version,
    /// The packet may have been sent before; ignored with QoS 0 ([MQTT-3.3.1-2]).
    pub dup: bool,
    /// The Quality of Service of the message.
    pub qos: QoS,
    /// RETAIN.
    pub retain: bool,
    /// The text of a Topic Name; empty when `topic_alias` replaces it.
    pub topic: &'a str,
    /// The Packet Identifier; ignored with QoS 0, and 0 when it is patched later.
    pub packet_id: u16,
    /// The bytes of encoded properties that are passed on, as
    /// [`PublishProperties::copy_forwardable`](super::PublishProperties::copy_forwardable) gives them.
    pub forwarded_properties: &'a [u8],
    /// The Message Expiry Interval that is left, in seconds ([MQTT-3.3.2-6]).
    pub message_expiry: Option<u32>,
    /// The Topic Alias, 1 to the receiver's Topic Alias Maximum ([MQTT-3.1.2-26]).
    pub topic_alias: Option<u16>,
    /// The identifiers of the receiver's subscriptions that match ([MQTT-3.3.4-4]), each 1 to
    /// [`MAX_SUBSCRIPTION_IDENTIFIER`](crate::MAX_SUBSCRIPTION_IDENTIFIER).
    pub subscription_identifiers: &'a [u32],
}

/// The lengths that the first bytes of the packet depend on, in bytes.
struct Lengths {
    properties: u32,
    remaining: u32,
    total: usize,
}

impl PublishHead<'_> {
    /// The size of the whole packet in bytes, with a payload of `payload_len` bytes. `usize::MAX` (more than
    /// [`MAX_PACKET_SIZE`](crate::MAX_PACKET_SIZE)) means that the packet cannot be encoded: it is too large for MQTT,
    /// the topic is too long or missing without an alias, or a number is out of its range.
    #[inline]
    pub fn encoded_len(&self, payload_len: usize) -> usize {
        self.lengths(payload_len).map_or(usize::MAX, |lengths| lengths.total)
    }

    /// Appends the packet up to its payload, and returns the offset of the Packet Identifier from the start of the
    /// appended bytes; `None` with QoS 0. Appends nothing if [`PublishHead::encoded_len`] says that the packet cannot
    /// be encoded.
    #[inline]
    pub fn encode(&self, payload_len: usize, out: &mut Vec<u8>) -> Option<usize> {
        let lengths = self.lengths(payload_len)?;
        let at_most_once = self.qos == QoS::AtMostOnce;
        out.reserve(lengths.total - payload_len);
        let first_byte = first_byte(self.dup && !at_most_once, self.qos, self.retain);
        let [high, low] = (self.topic.len() as u16).to_be_bytes();
        // Short packets are the most, and one copy of a known length is cheaper than three copies.
        match lengths.remaining {
            len @ 0..=0x7F => out.extend_from_slice(&[first_byte, len as u8, high, low]),
            len @ 0x80..=0x3FFF => {
                let (least, most) = (len as u8 | 0x80, (len >> 7) as u8);
                out.extend_from_slice(&[first_byte, least, most, high, low]);
            }
            len => {
                out.push(first_byte);
                push_varint(len, out);
                out.extend_from_slice(&[high, low]);
            }
        }
        out.extend_from_slice(self.topic.as_bytes());
        if !at_most_once {
            out.extend_from_slice(&self.packet_id.to_be_bytes());
        }
        if self.version.is_v5() {
            self.encode_properties(lengths.properties, out);
        }
        (!at_most_once).then_some(1 + varint::len(lengths.remaining) + 2 + self.topic.len())
    }

    /// `None` when the packet cannot be encoded.
    #[inline]
    fn lengths(&self, payload_len: usize) -> Option<Lengths> {
        if self.topic.len() > MAX_TOPIC_LEN || (self.topic.is_empty() && !self.has_alias()) {
            return None;
        }
        let mut head = 2 + self.topic.len();
        if self.qos != QoS::AtMostOnce {
            head += 2;
        }
        let mut properties = 0;
        if self.version.is_v5() {
            properties = u32::try_from(self.properties_len()?).ok()?;
            head += varint::len(properties) + properties as usize;
        }
        let remaining = u32::try_from(head.checked_add(payload_len)?).ok()?;
        if remaining > varint::MAX_VARINT {
            return None;
        }
        let total = 1 + varint::len(remaining) + remaining as usize;
        Some(Lengths { properties, remaining, total })
    }

    const fn has_alias(&self) -> bool {
        self.version.is_v5() && self.topic_alias.is_some()
    }

    #[inline]
    fn properties_len(&self) -> Option<usize> {
        let mut len = self.forwarded_properties.len();
        if self.message_expiry.is_some() {
            len += 1 + 4;
        }
        match self.topic_alias {
            None => {}
            Some(0) => return None,
            Some(_) => len += 1 + 2,
        }
        for &identifier in self.subscription_identifiers {
            if !(1..=MAX_SUBSCRIPTION_IDENTIFIER).contains(&identifier) {
                return None;
            }
            len += 1 + varint::len(identifier);
        }
        Some(len)
    }

    fn encode_properties(&self, len: u32, out: &mut Vec<u8>) {
        push_varint(len, out);
        if let Some(seconds) = self.message_expiry {
            out.push(PropertyId::MessageExpiryInterval as u8);
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        if let Some(alias) = self.topic_alias {
            out.push(PropertyId::TopicAlias as u8);
            out.extend_from_slice(&alias.to_be_bytes());
        }
        for &identifier in self.subscription_identifiers {
            out.push(PropertyId::SubscriptionIdentifier as u8);
            push_varint(identifier, out);
        }
        out.extend_from_slice(self.forwarded_properties);
    }
}

/// Appends a Variable Byte Integer that has been checked to be one.
#[inline]
fn push_varint(value: u32, out: &mut Vec<u8>) {
    match u8::try_from(value) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            if let Some(varint) = varint::encode(value) {
                out.extend_from_slice(varint.as_bytes());
            }
        }
    }
}
