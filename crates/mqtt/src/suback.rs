//! SUBACK: answers a SUBSCRIBE, from server to client (section 3.9).

use crate::explanation::Explanation;
use crate::reader::{Reader, check_flags};
use crate::writer;
use crate::{
    DecodeError, EncodeError, MAX_PACKET_SIZE, PacketId, PacketType, ReasonCode, ReasonCodes, UserProperties, Version,
};

/// The only code of a failure that MQTT 3.1.1 knows.
const FAILURE: u8 = 0x80;

/// A SUBACK packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// The Packet Identifier of the SUBSCRIBE packet ([MQTT-3.8.4-2]).
    pub packet_id: PacketId,
    /// The Reason String, for people; MQTT 5.0 only.
    pub reason_string: Option<&'a str>,
    /// Pairs of the server's own; MQTT 5.0 only.
    pub user_properties: UserProperties<'a>,
    /// For each Topic Filter the granted QoS or the reason of a failure ([MQTT-3.8.4-6],
    /// [MQTT-3.8.4-7]).
    pub reason_codes: ReasonCodes<'a>,
}

impl<'a> SubAck<'a> {
    /// A packet without properties.
    pub const fn new(packet_id: PacketId, reason_codes: &'a [ReasonCode]) -> Self {
        Self {
            packet_id,
            reason_string: None,
            user_properties: UserProperties::EMPTY,
            reason_codes: ReasonCodes::new(reason_codes),
        }
    }

    /// Decodes the body: the variable header and the payload.
    ///
    /// # Errors
    ///
    /// When the packet is malformed, or holds a code that does not exist in it.
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        const PACKET: PacketType = PacketType::SubAck;
        check_flags(PACKET, version, first_byte)?;
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id(PACKET)?;
        let explanation = if version.is_v5() {
            Explanation::decode(reader.property_block()?, PACKET)?
        } else {
            Explanation::default()
        };
        let codes = reader.rest();
        while !reader.is_empty() {
            let code = reader.reason_code(PACKET)?.byte();
            if !version.is_v5() && code > FAILURE {
                return Err(DecodeError::InvalidReasonCode { packet: PACKET, code });
            }
        }
        Ok(Self {
            packet_id,
            reason_string: explanation.reason_string,
            user_properties: explanation.user_properties,
            reason_codes: ReasonCodes::from_bytes(codes),
        })
    }

    /// Appends the packet. Each failure is 0x80 in MQTT 3.1.1. MQTT 3.1 has no failure code, so the server answers as
    /// if it had granted QoS 0.
    ///
    /// # Errors
    ///
    /// When the packet may not carry a Reason Code, or cannot be encoded.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_within(version, MAX_PACKET_SIZE, out)
    }

    /// As [`SubAck::encode`], for a receiver that takes packets of at most `max_packet_size` bytes: User
    /// Properties and Reason String are left out as far as the packet does not fit with them
    /// ([MQTT-3.9.2-1], [MQTT-3.9.2-2]).
    ///
    /// # Errors
    ///
    /// As [`SubAck::encode`], and when the packet does not fit without them either.
    pub fn encode_within(&self, version: Version, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::SubAck;
        if let Some(code) = self.reason_codes.iter().find(|code| !code.allowed_in(packet)) {
            return Err(EncodeError::ReasonNotAllowed { packet, code });
        }
        let explanation = Explanation { reason_string: self.reason_string, user_properties: self.user_properties };
        explanation.fit(|explanation| {
            writer::packet(packet.first_byte(), max_packet_size, out, |sink| {
                sink.packet_id(self.packet_id);
                if version.is_v5() {
                    sink.properties(|sink| explanation.write(sink));
                }
                for code in &self.reason_codes {
                    sink.u8(code_byte(version, code));
                }
            })
        })
    }
}

const fn code_byte(version: Version, code: ReasonCode) -> u8 {
    match (version, code.is_error()) {
        (Version::V31, true) => ReasonCode::GRANTED_QOS_0.byte(),
        (Version::V311, true) => FAILURE,
        _ => code.byte(),
    }
}
