//! CONNACK: answers a CONNECT, from server to client (section 3.2).

mod properties;

pub use properties::ConnAckProperties;

use crate::reader::{Reader, check_flags};
use crate::writer;
use crate::{ConnectReturnCode, DecodeError, EncodeError, MAX_PACKET_SIZE, PacketType, ReasonCode, Version};

/// A CONNACK packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// The server has a session for the client ([MQTT-3.2.2-2], [MQTT-3.2.2-3]). MQTT 3.1 has no such flag.
    pub session_present: bool,
    /// Whether the connection is accepted. Before MQTT 5.0 the packet carries the Connect Return Code that
    /// [`ConnectReturnCode`] pairs with it.
    pub reason_code: ReasonCode,
    /// The properties; empty before MQTT 5.0.
    pub properties: ConnAckProperties<'a>,
}

impl<'a> ConnAck<'a> {
    /// A packet that refuses the connection, without properties.
    pub fn refused(reason_code: ReasonCode) -> Self {
        Self { session_present: false, reason_code, properties: ConnAckProperties::default() }
    }

    /// Decodes the body: the variable header and the payload.
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error.
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        const PACKET: PacketType = PacketType::ConnAck;
        check_flags(PACKET, version, first_byte)?;
        let mut reader = Reader::new(body);
        let flags = reader.u8("connect acknowledge flags")?;
        let session_present = match (version, flags) {
            (Version::V31, _) | (_, 0) => false,
            (_, 1) => true,
            _ => {
                return Err(DecodeError::ReservedBits { field: "connect acknowledge flags" });
            }
        };
        let mut properties = ConnAckProperties::default();
        let reason_code = if version.is_v5() {
            let reason_code = reader.reason_code(PACKET)?;
            properties = ConnAckProperties::decode(reader.property_block()?)?;
            reason_code
        } else {
            let code = reader.u8("connect return code")?;
            ConnectReturnCode::from_byte(code).ok_or(DecodeError::InvalidReasonCode { packet: PACKET, code })?.reason()
        };
        reader.finish(PACKET)?;
        if session_present && reason_code != ReasonCode::Success {
            return Err(DecodeError::SessionPresentWithError);
        }
        Ok(Self { session_present, reason_code, properties })
    }

    /// Appends the packet. A refusal never reports a session ([MQTT-3.2.2-6]).
    ///
    /// # Errors
    ///
    /// When the packet may not carry the Reason Code, there is no Connect Return Code for it
    /// ([`EncodeError::NoReturnCode`]), or a property cannot be encoded.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_within(version, MAX_PACKET_SIZE, out)
    }

    /// As [`ConnAck::encode`], for a receiver that takes packets of at most `max_packet_size` bytes: User
    /// Properties and Reason String are left out as far as the packet does not fit with them
    /// ([MQTT-3.2.2-19], [MQTT-3.2.2-20]).
    ///
    /// # Errors
    ///
    /// As [`ConnAck::encode`], and when the packet does not fit without them either.
    pub fn encode_within(&self, version: Version, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::ConnAck;
        let code = self.reason_code;
        if !code.allowed_in(packet) {
            return Err(EncodeError::ReasonNotAllowed { packet, code });
        }
        let return_code = ConnectReturnCode::from_reason(code);
        let code_byte = match return_code {
            _ if version.is_v5() => code.byte(),
            Some(return_code) => return_code as u8,
            None => return Err(EncodeError::NoReturnCode { code }),
        };
        let session_present = self.session_present && code == ReasonCode::Success && version != Version::V31;
        self.properties.explanation().fit(|explanation| {
            writer::packet(packet.first_byte(), max_packet_size, out, |sink| {
                sink.u8(u8::from(session_present));
                sink.u8(code_byte);
                if version.is_v5() {
                    sink.properties(|sink| self.properties.write(sink, explanation));
                }
            })
        })
    }
}
