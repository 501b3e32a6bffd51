//! DISCONNECT: the last packet on a connection, from client to server, in MQTT 5.0 either way (section 3.14).

use crate::explanation::Explanation;
use crate::property::{Property, PropertyReader};
use crate::reader::{Reader, check_flags};
use crate::writer;
use crate::{
    DecodeError, EncodeError, MAX_PACKET_SIZE, PacketType, PropertyOwner, ReasonCode, UserProperties, Version,
};

/// A DISCONNECT packet. Before MQTT 5.0 it has no content, and only a client sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// Why the connection is closed.
    pub reason_code: ReasonCode,
    /// A new Session Expiry Interval in seconds; only a client sends it ([MQTT-3.14.2-2]).
    pub session_expiry_interval: Option<u32>,
    /// The Reason String, for people.
    pub reason_string: Option<&'a str>,
    /// Pairs of the sender's own.
    pub user_properties: UserProperties<'a>,
    /// Another server to use; only a server sends it.
    pub server_reference: Option<&'a str>,
}

impl<'a> Disconnect<'a> {
    /// A packet without properties.
    pub const fn new(reason_code: ReasonCode) -> Self {
        Self {
            reason_code,
            session_expiry_interval: None,
            reason_string: None,
            user_properties: UserProperties::EMPTY,
            server_reference: None,
        }
    }

    /// Decodes the body: the variable header and the payload.
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error; which properties the sender may use is not checked.
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        const PACKET: PacketType = PacketType::Disconnect;
        check_flags(PACKET, version, first_byte)?;
        let mut reader = Reader::new(body);
        let mut disconnect = Self::default();
        if version.is_v5() && !reader.is_empty() {
            disconnect.reason_code = reader.reason_code(PACKET)?;
            if !reader.is_empty() {
                disconnect.read_properties(reader.property_block()?)?;
            }
        }
        reader.finish(PACKET)?;
        Ok(disconnect)
    }

    fn read_properties(&mut self, block: &'a [u8]) -> Result<(), DecodeError> {
        self.user_properties = UserProperties::from_block(block);
        let mut reader = PropertyReader::new(block, PropertyOwner::Packet(PacketType::Disconnect));
        while let Some(property) = reader.next()? {
            match property {
                Property::SessionExpiryInterval(seconds) => {
                    self.session_expiry_interval = Some(seconds);
                }
                Property::ReasonString(text) => self.reason_string = Some(text),
                Property::ServerReference(text) => self.server_reference = Some(text),
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends the packet, in its shortest form.
    ///
    /// # Errors
    ///
    /// When the packet may not carry the Reason Code, or a property cannot be encoded.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_within(version, MAX_PACKET_SIZE, out)
    }

    /// As [`Disconnect::encode`], for a receiver that takes packets of at most `max_packet_size` bytes: User
    /// Properties and Reason String are left out as far as the packet does not fit with them
    /// ([MQTT-3.14.2-3], [MQTT-3.14.2-4]).
    ///
    /// # Errors
    ///
    /// As [`Disconnect::encode`], and when the packet does not fit without them either.
    pub fn encode_within(&self, version: Version, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::Disconnect;
        if !self.reason_code.allowed_in(packet) {
            return Err(EncodeError::ReasonNotAllowed { packet, code: self.reason_code });
        }
        if !version.is_v5() {
            return writer::packet(packet.first_byte(), max_packet_size, out, |_| {});
        }
        let explanation = Explanation { reason_string: self.reason_string, user_properties: self.user_properties };
        explanation.fit(|explanation| {
            writer::packet(packet.first_byte(), max_packet_size, out, |sink| {
                sink.reason_and_properties(self.reason_code, |sink| {
                    sink.optional(self.session_expiry_interval, Property::SessionExpiryInterval);
                    sink.optional(self.server_reference, Property::ServerReference);
                    explanation.write(sink);
                });
            })
        })
    }
}
