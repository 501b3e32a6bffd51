//! The properties of a PUBLISH packet.

use std::num::NonZeroU16;

use crate::property::{self, Property, PropertyReader};
use crate::string::is_plain;
use crate::writer::Sink;
use crate::{
    DecodeError, PacketType, PayloadFormat, PropertyId, PropertyOwner, SubscriptionIdentifiers, TopicName,
    UserProperties,
};

/// The properties of a PUBLISH packet (section 3.3.2.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct PublishProperties<'a> {
    /// The Payload Format Indicator; forwarded unaltered ([MQTT-3.3.2-4]).
    pub payload_format: Option<PayloadFormat>,
    /// Message Expiry Interval: how long the message is worth delivering, in seconds. It is passed on less
    /// the time that the message has waited ([MQTT-3.3.2-6]).
    pub message_expiry: Option<u32>,
    /// The number that replaces the topic on this connection; never 0 ([MQTT-3.3.2-8]).
    pub topic_alias: Option<NonZeroU16>,
    /// The topic of the response; to be passed on unaltered ([MQTT-3.3.2-15]).
    pub response_topic: Option<TopicName<'a>>,
    /// Identifies the request that a response answers; forwarded unaltered ([MQTT-3.3.2-16]).
    pub correlation_data: Option<&'a [u8]>,
    /// The type of the payload, often a MIME type; to be passed on unaltered ([MQTT-3.3.2-20]).
    pub content_type: Option<&'a str>,
    /// The subscriptions that the message was sent for; only a server sends them ([MQTT-3.3.4-6]).
    pub subscription_identifiers: SubscriptionIdentifiers<'a>,
    /// Pairs of the publisher's own; to be passed on unaltered and in order
    /// ([MQTT-3.3.2-17], [MQTT-3.3.2-18]).
    pub user_properties: UserProperties<'a>,
    /// The bytes of all properties as they were received, without their length. Empty in a packet that is
    /// built to be sent, and not looked at when encoding.
    pub raw: &'a [u8],
}

/// Compares the values of the properties. `raw` may differ, since properties have no order.
impl PartialEq for PublishProperties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.payload_format == other.payload_format
            && self.message_expiry == other.message_expiry
            && self.topic_alias == other.topic_alias
            && self.response_topic == other.response_topic
            && self.correlation_data == other.correlation_data
            && self.content_type == other.content_type
            && self.subscription_identifiers == other.subscription_identifiers
            && self.user_properties == other.user_properties
    }
}

impl Eq for PublishProperties<'_> {}

impl<'a> PublishProperties<'a> {
    /// Decodes and checks the properties in `block`, which is without its length.
    ///
    /// # Errors
    ///
    /// When a property is malformed, does not belong in a PUBLISH packet, is there twice though it may not
    /// be, or has a value outside its range.
    pub fn decode(block: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_with_pairs(block, |_, _| {})
    }

    /// The same, and hands each User Property over in their order: a receiver that keeps them need not read them again.
    ///
    /// # Errors
    ///
    /// As [`PublishProperties::decode`]. Some User Properties may have been handed over then.
    pub fn decode_with_pairs(block: &'a [u8], mut pair: impl FnMut(&'a str, &'a str)) -> Result<Self, DecodeError> {
        let mut properties = Self { raw: block, ..Self::default() };
        let mut reader = PropertyReader::new(block, PropertyOwner::Packet(PacketType::Publish));
        while let Some(property) = reader.next()? {
            match property {
                Property::PayloadFormatIndicator(format) => {
                    properties.payload_format = Some(format);
                }
                Property::MessageExpiryInterval(seconds) => {
                    properties.message_expiry = Some(seconds);
                }
                Property::TopicAlias(alias) => properties.topic_alias = Some(alias),
                Property::ResponseTopic(topic) => properties.response_topic = Some(topic),
                Property::CorrelationData(data) => properties.correlation_data = Some(data),
                Property::ContentType(text) => properties.content_type = Some(text),
                // Properties that may repeat are read from the block on demand.
                Property::SubscriptionIdentifier(_) => {
                    properties.subscription_identifiers = SubscriptionIdentifiers::from_block(block);
                }
                Property::User(name, value) => {
                    properties.user_properties = UserProperties::from_block(block);
                    pair(name, value);
                }
                // The reader rejects all others.
                _ => {}
            }
        }
        Ok(properties)
    }

    /// True if `block`, which is without its length, holds only well-formed User Properties in ASCII, none of them with a
    /// name that begins with `reserved`: a server passes such a block on as it is. [`PublishProperties::decode`] decides
    /// about all others.
    #[inline]
    pub fn are_plain_pairs(block: &[u8], reserved: &str) -> bool {
        let mut rest = block;
        while let Some((&id, pair)) = rest.split_first() {
            let Some((name, value)) = plain_text(pair).filter(|_| id == PropertyId::UserProperty as u8) else {
                return false;
            };
            let Some((_, behind)) = plain_text(value).filter(|_| !name.starts_with(reserved.as_bytes())) else {
                return false;
            };
            rest = behind;
        }
        true
    }

    /// Appends the bytes of the properties that a server passes on, in their order: all but the Topic Alias
    /// (which holds for one connection), the Message Expiry Interval (which has to be reduced) and the
    /// Subscription Identifiers (which are the receiver's).
    pub fn copy_forwardable(&self, out: &mut Vec<u8>) {
        property::copy_without(self.raw, NOT_FORWARDED, out);
    }

    /// As [`PublishProperties::copy_forwardable`], and without User Properties of these names.
    pub fn copy_forwardable_without(&self, user_properties: &[&str], out: &mut Vec<u8>) {
        property::copy_without_pairs(self.raw, NOT_FORWARDED, user_properties, out);
    }

    pub(super) fn write(&self, sink: &mut dyn Sink) {
        sink.optional(self.payload_format, Property::PayloadFormatIndicator);
        sink.optional(self.message_expiry, Property::MessageExpiryInterval);
        sink.optional(self.topic_alias, Property::TopicAlias);
        sink.optional(self.response_topic, Property::ResponseTopic);
        sink.optional(self.correlation_data, Property::CorrelationData);
        sink.optional(self.content_type, Property::ContentType);
        for identifier in &self.subscription_identifiers {
            sink.property(Property::SubscriptionIdentifier(identifier));
        }
        sink.user_properties(&self.user_properties);
    }
}

/// The string that `bytes` begin with, and the bytes behind it, if it is in ASCII and well-formed.
#[inline]
fn plain_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (text, behind) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    is_plain(text).then_some((text, behind))
}

/// Properties of one connection, or recalculated for each receiver.
const NOT_FORWARDED: &[PropertyId] =
    &[PropertyId::TopicAlias, PropertyId::MessageExpiryInterval, PropertyId::SubscriptionIdentifier];

#[cfg(test)]
mod tests {
    use super::*;

    /// A User Property with a name and a value of one character each.
    const PAIR: [u8; 7] = *b"\x26\0\x01a\0\x01b";

    #[test]
    fn plain_pairs_are_passed_on_as_they_are() {
        let pairs = [PAIR, PAIR].concat();
        for block in [&b""[..], &PAIR, &pairs, b"\x26\0\0\0\0"] {
            assert!(PublishProperties::are_plain_pairs(block, "b"), "{block:?}");
            let mut copied = Vec::new();
            PublishProperties::decode(block).unwrap().copy_forwardable_without(&["b"], &mut copied);
            assert_eq!(copied, block);
        }
        assert!(!PublishProperties::are_plain_pairs(&pairs, "a"), "the name is reserved");
        let longer = b"\x26\0\x02ab\0\x01c";
        assert!(!PublishProperties::are_plain_pairs(longer, "a"), "its name begins with the reserved text");
        assert!(PublishProperties::are_plain_pairs(longer, "abc"), "the reserved text is longer");
    }

    #[test]
    fn user_properties_are_handed_over_in_their_order() {
        let block = [&PAIR[..], b"\x0b\x05", b"\x26\0\x01c\0\0"].concat();
        let mut pairs = Vec::new();
        let pair = |name, value| pairs.push((name, value));
        let properties = PublishProperties::decode_with_pairs(&block, pair).unwrap();
        assert_eq!(pairs, [("a", "b"), ("c", "")]);
        assert!(properties.user_properties.iter().eq(pairs));
        assert!(properties.subscription_identifiers.iter().eq([5]));
        assert!(PublishProperties::decode(b"\x01\x01").unwrap().user_properties.is_empty());
    }

    #[test]
    fn a_changed_byte_makes_no_other_pair_plain() {
        let pairs = [PAIR, PAIR].concat();
        for at in 0..pairs.len() {
            for byte in 0..=u8::MAX {
                let mut block = pairs.clone();
                block[at] = byte;
                if PublishProperties::are_plain_pairs(&block, "c") {
                    let decoded = PublishProperties::decode(&block).expect("well-formed properties");
                    let mut copied = Vec::new();
                    decoded.copy_forwardable_without(&["c"], &mut copied);
                    assert_eq!(copied, block);
                }
            }
            assert!(!PublishProperties::are_plain_pairs(&pairs[..at], "c") || at % PAIR.len() == 0, "it is cut off");
        }
    }
}
