//! The SUBSCRIBE and UNSUBSCRIBE packets as a case describes them.

use super::bytes::Bytes;
use super::properties::{self, Property};
use crate::version::Version;

/// Subscription option bit: do not send me my own messages.
pub(crate) const NO_LOCAL: u8 = 0x04;
/// Subscription option bit: keep the RETAIN flag as published.
pub(crate) const RETAIN_AS_PUBLISHED: u8 = 0x08;
/// Retain Handling 1: retained messages only when the subscription is new.
pub(crate) const RETAIN_IF_NEW: u8 = 0x10;
/// Retain Handling 2: no retained messages.
pub(crate) const RETAIN_NEVER: u8 = 0x20;

/// A SUBSCRIBE packet: filters with their options byte, whose low bits are the QoS. Packet identifier 0 means that the
/// client that sends it gives one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribe {
    pub(crate) packet_id: u16,
    pub(crate) properties: Vec<Property>,
    pub(crate) filters: Vec<(String, u8)>,
}

impl Subscribe {
    pub(crate) fn new(filter: &str, options: u8) -> Self {
        Self::default().and(filter, options)
    }

    /// One more filter.
    pub(crate) fn and(mut self, filter: &str, options: u8) -> Self {
        self.filters.push((filter.to_owned(), options));
        self
    }

    pub(crate) fn id(mut self, packet_id: u16) -> Self {
        self.packet_id = packet_id;
        self
    }

    pub(crate) fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }

    pub(crate) fn encode(&self, version: Version) -> Vec<u8> {
        let head = head(self.packet_id, &self.properties, version);
        let body = self.filters.iter().fold(head, |body, (filter, options)| body.text(filter).byte(*options));
        body.packet(0x82)
    }
}

/// An UNSUBSCRIBE packet. Packet identifier 0 means that the client that sends it gives one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsubscribe {
    pub(crate) packet_id: u16,
    pub(crate) filters: Vec<String>,
}

impl Unsubscribe {
    pub(crate) fn new(filter: &str) -> Self {
        Self::default().and(filter)
    }

    /// One more filter.
    pub(crate) fn and(mut self, filter: &str) -> Self {
        self.filters.push(filter.to_owned());
        self
    }

    pub(crate) fn id(mut self, packet_id: u16) -> Self {
        self.packet_id = packet_id;
        self
    }

    pub(crate) fn encode(&self, version: Version) -> Vec<u8> {
        let head = head(self.packet_id, &[], version);
        self.filters.iter().fold(head, |body, filter| body.text(filter)).packet(0xa2)
    }
}

/// The variable header of both packets.
pub(crate) fn head(packet_id: u16, properties: &[Property], version: Version) -> Bytes {
    let head = Bytes::new().two(packet_id);
    if version == Version::V5 { head.raw(&properties::encode(properties)) } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribe_and_unsubscribe_are_byte_exact() {
        let subscribe = Subscribe::new("a", 1).id(7);
        assert_eq!(subscribe.encode(Version::V311), [0x82, 6, 0, 7, 0, 1, b'a', 1]);
        let subscribe = subscribe.with(Property::SubscriptionIdentifier(9));
        assert_eq!(subscribe.encode(Version::V5), [0x82, 9, 0, 7, 2, 0x0b, 9, 0, 1, b'a', 1]);
        let unsubscribe = Unsubscribe::new("a").id(8);
        assert_eq!(unsubscribe.encode(Version::V5), [0xa2, 6, 0, 8, 0, 0, 1, b'a']);
    }
}
