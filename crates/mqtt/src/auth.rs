//! AUTH: a step of an authentication exchange, either way, MQTT 5.0 only (section 3.15).

use crate::explanation::Explanation;
use crate::property::{Property, PropertyReader};
use crate::reader::{Reader, check_flags};
use crate::writer;
use crate::{
    DecodeError, EncodeError, MAX_PACKET_SIZE, PacketType, PropertyId, PropertyOwner, ReasonCode, UserProperties,
    Version,
};

/// An AUTH packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The state of the exchange: success, continue authentication or re-authenticate ([MQTT-3.15.2-1]).
    pub reason_code: ReasonCode,
    /// The name of the method. It is absent only in the short form, success without any property.
    pub authentication_method: Option<&'a str>,
    /// Data of the authentication method.
    pub authentication_data: Option<&'a [u8]>,
    /// The Reason String, for people.
    pub reason_string: Option<&'a str>,
    /// Pairs of the sender's own.
    pub user_properties: UserProperties<'a>,
}

impl<'a> Auth<'a> {
    /// Decodes the body: the variable header and the payload.
    ///
    /// # Errors
    ///
    /// When the version has no such packet, it is malformed, or it lacks the Authentication Method.
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        const PACKET: PacketType = PacketType::Auth;
        if !version.is_v5() {
            return Err(DecodeError::NotInVersion { packet: PACKET, version });
        }
        check_flags(PACKET, version, first_byte)?;
        let mut auth = Self::default();
        if body.is_empty() {
            return Ok(auth);
        }
        let mut reader = Reader::new(body);
        auth.reason_code = reader.reason_code(PACKET)?;
        auth.read_properties(reader.property_block()?)?;
        reader.finish(PACKET)?;
        if auth.authentication_method.is_none() {
            let property = PropertyId::AuthenticationMethod;
            return Err(DecodeError::MissingProperty { packet: PACKET, property });
        }
        Ok(auth)
    }

    fn read_properties(&mut self, block: &'a [u8]) -> Result<(), DecodeError> {
        self.user_properties = UserProperties::from_block(block);
        let mut reader = PropertyReader::new(block, PropertyOwner::Packet(PacketType::Auth));
        while let Some(property) = reader.next()? {
            match property {
                Property::AuthenticationMethod(text) => self.authentication_method = Some(text),
                Property::AuthenticationData(data) => self.authentication_data = Some(data),
                Property::ReasonString(text) => self.reason_string = Some(text),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether this is success without any property, which has a form without the method.
    fn is_short(&self) -> bool {
        self.reason_code == ReasonCode::Success
            && self.authentication_data.is_none()
            && self.reason_string.is_none()
            && self.user_properties.is_empty()
    }

    /// Appends the packet.
    ///
    /// # Errors
    ///
    /// When the version has no such packet, the packet may not carry the Reason Code, it lacks the
    /// Authentication Method, or a property cannot be encoded.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_within(version, MAX_PACKET_SIZE, out)
    }

    /// As [`Auth::encode`], for a receiver that takes packets of at most `max_packet_size` bytes: User
    /// Properties and Reason String are left out as far as the packet does not fit with them
    /// ([MQTT-3.15.2-2], [MQTT-3.15.2-3]).
    ///
    /// # Errors
    ///
    /// As [`Auth::encode`], and when the packet does not fit without them either.
    pub fn encode_within(&self, version: Version, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::Auth;
        if !version.is_v5() {
            return Err(EncodeError::NotInVersion { element: packet.name(), version });
        }
        if !self.reason_code.allowed_in(packet) {
            return Err(EncodeError::ReasonNotAllowed { packet, code: self.reason_code });
        }
        if self.authentication_method.is_none() && !self.is_short() {
            return Err(EncodeError::MissingField { packet, field: "authentication method" });
        }
        let explanation = Explanation { reason_string: self.reason_string, user_properties: self.user_properties };
        explanation.fit(|explanation| {
            writer::packet(packet.first_byte(), max_packet_size, out, |sink| {
                sink.reason_and_properties(self.reason_code, |sink| {
                    sink.optional(self.authentication_method, Property::AuthenticationMethod);
                    sink.optional(self.authentication_data, Property::AuthenticationData);
                    explanation.write(sink);
                });
            })
        })
    }
}
