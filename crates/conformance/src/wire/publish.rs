//! The PUBLISH packet, for both directions.

use super::bytes::Bytes;
use super::properties::{self, Property};
use super::reader::{Fault, Reader};
use crate::version::Version;

/// A PUBLISH packet. The packet identifier is 0 when the QoS is 0, where the wire has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) dup: bool,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) topic: String,
    pub(crate) packet_id: u16,
    pub(crate) properties: Vec<Property>,
    pub(crate) payload: Vec<u8>,
}

impl Publish {
    /// A QoS 0 message.
    pub(crate) fn new(topic: &str, payload: impl AsRef<[u8]>) -> Self {
        Self { topic: topic.to_owned(), payload: payload.as_ref().to_vec(), ..Self::default() }
    }

    /// The same with a QoS; the client that sends it gives the packet identifier unless [`Publish::id`] did.
    pub(crate) fn qos(mut self, qos: u8) -> Self {
        self.qos = qos;
        self
    }

    pub(crate) fn id(mut self, packet_id: u16) -> Self {
        self.packet_id = packet_id;
        self
    }

    pub(crate) fn dup(mut self) -> Self {
        self.dup = true;
        self
    }

    pub(crate) fn retain(mut self) -> Self {
        self.retain = true;
        self
    }

    pub(crate) fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }

    pub(crate) fn encode(&self, version: Version) -> Vec<u8> {
        let mut body = Bytes::new().text(&self.topic);
        if self.qos > 0 {
            body = body.two(self.packet_id);
        }
        if version == Version::V5 {
            body = body.raw(&properties::encode(&self.properties));
        }
        body.raw(&self.payload).packet(self.first_byte())
    }

    /// The first byte of the fixed header: packet type and flags.
    pub(crate) fn first_byte(&self) -> u8 {
        0x30 | (u8::from(self.dup) << 3) | (self.qos << 1) | u8::from(self.retain)
    }

    /// Reads the body of a PUBLISH packet from a server.
    pub(crate) fn decode(first_byte: u8, body: &[u8], version: Version) -> Result<Self, Fault> {
        let mut reader = Reader::new(body);
        let qos = (first_byte >> 1) & 0x03;
        let dup = first_byte & 0x08 != 0;
        if qos == 3 {
            return Err(Fault::BothQosBits);
        }
        if qos == 0 && dup {
            return Err(Fault::DupOfQos0);
        }
        let topic = reader.text("the topic name")?;
        if topic.contains(['+', '#']) {
            return Err(Fault::Wildcard(topic));
        }
        let packet_id = if qos > 0 { reader.two("the packet identifier")? } else { 0 };
        if qos > 0 && packet_id == 0 {
            return Err(Fault::NoPublishIdentifier);
        }
        let properties = match version {
            Version::V5 => properties::read(&mut reader, properties::IN_PUBLISH)?,
            Version::V31 | Version::V311 => Vec::new(),
        };
        Ok(Self {
            dup,
            qos,
            retain: first_byte & 0x01 != 0,
            topic,
            packet_id,
            properties,
            payload: reader.rest().to_vec(),
        })
    }

    /// The payload as text, for messages of failures.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    /// The subscription identifiers, in the order sent.
    pub(crate) fn subscription_identifiers(&self) -> Vec<usize> {
        let identifier = |property: &Property| match property {
            Property::SubscriptionIdentifier(value) => Some(*value),
            _ => None,
        };
        self.properties.iter().filter_map(identifier).collect()
    }

    /// The user properties, in the order sent.
    pub(crate) fn user_properties(&self) -> Vec<(String, String)> {
        let pair = |property: &Property| match property {
            Property::UserProperty(name, value) => Some((name.clone(), value.clone())),
            _ => None,
        };
        self.properties.iter().filter_map(pair).collect()
    }

    /// The topic alias, if there is one.
    pub(crate) fn topic_alias(&self) -> Option<u16> {
        self.properties.iter().find_map(|property| match property {
            Property::TopicAlias(alias) => Some(*alias),
            _ => None,
        })
    }

    /// The message expiry interval in seconds, if there is one.
    pub(crate) fn expiry(&self) -> Option<u32> {
        self.properties.iter().find_map(|property| match property {
            Property::MessageExpiryInterval(seconds) => Some(*seconds),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishes_read_back_as_written() {
        for version in Version::ALL {
            let publish = Publish::new("a/b", "payload").qos(2).id(10).dup().retain();
            let bytes = publish.encode(version);
            assert_eq!(Publish::decode(bytes[0], &bytes[2..], version), Ok(publish));
        }
    }

    #[test]
    fn packets_of_clients_from_a_server_are_faults() {
        let version = Version::V311;
        assert!(Publish::decode(0x36, b"\0\x01a\0\x01", version).is_err());
        assert!(Publish::decode(0x38, b"\0\x01a", version).is_err());
        assert!(Publish::decode(0x32, b"\0\x01a\0\0", version).is_err());
        assert!(Publish::decode(0x30, b"\0\x01+", version).is_err());
    }
}
