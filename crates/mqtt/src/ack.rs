//! The fields shared by PUBACK, PUBREC, PUBREL and PUBCOMP: a Packet Identifier and, in MQTT 5.0, a Reason Code, a
//! Reason String and User Properties.

use crate::explanation::Explanation;
use crate::reader::{Reader, check_flags};
use crate::writer;
use crate::{DecodeError, EncodeError, PacketId, PacketType, ReasonCode, Version};

/// The Reason Codes that an acknowledgement may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codes {
    /// The codes of its type.
    OfPacket,
    /// All numbers.
    Any,
}

/// The content of an acknowledgement of any of the four types.
#[derive(Clone, Copy)]
pub(crate) struct Ack<'a> {
    pub(crate) packet_id: PacketId,
    pub(crate) reason_code: ReasonCode,
    pub(crate) explanation: Explanation<'a>,
}

impl<'a> Ack<'a> {
    pub(crate) fn decode(
        packet: PacketType,
        version: Version,
        first_byte: u8,
        body: &'a [u8],
        codes: Codes,
    ) -> Result<Self, DecodeError> {
        check_flags(packet, version, first_byte)?;
        let mut reader = Reader::new(body);
        let mut ack = Self {
            packet_id: reader.packet_id(packet)?,
            reason_code: ReasonCode::Success,
            explanation: Explanation::default(),
        };
        if version.is_v5() && !reader.is_empty() {
            ack.reason_code = match codes {
                Codes::OfPacket => reader.reason_code(packet)?,
                Codes::Any => reader.any_reason_code()?,
            };
            if !reader.is_empty() {
                ack.explanation = Explanation::decode(reader.property_block()?, packet)?;
            }
        }
        reader.finish(packet)?;
        Ok(ack)
    }

    #[inline]
    pub(crate) fn encode_within(
        &self,
        packet: PacketType,
        version: Version,
        max_packet_size: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let [high, low] = self.packet_id.get().to_be_bytes();
        let first_byte = packet.first_byte();
        if !version.is_v5() {
            return short(&[first_byte, 2, high, low], max_packet_size, out);
        }
        if !self.reason_code.allowed_in(packet) {
            return Err(EncodeError::ReasonNotAllowed { packet, code: self.reason_code });
        }
        if !self.explanation.is_empty() {
            return self.encode_explained(packet, max_packet_size, out);
        }
        if self.reason_code == ReasonCode::Success {
            short(&[first_byte, 2, high, low], max_packet_size, out)
        } else {
            short(&[first_byte, 3, high, low, self.reason_code.byte()], max_packet_size, out)
        }
    }

    fn encode_explained(&self, packet: PacketType, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.explanation.fit(|explanation| {
            if explanation.is_empty() {
                let plain = Self { explanation: *explanation, ..*self };
                return plain.encode_within(packet, Version::V5, max_packet_size, out);
            }
            writer::packet(packet.first_byte(), max_packet_size, out, |sink| {
                sink.packet_id(self.packet_id);
                sink.u8(self.reason_code.byte());
                sink.properties(|sink| explanation.write(sink));
            })
        })
    }
}

/// Appends a packet whose bytes are all known.
#[inline]
fn short(bytes: &[u8], max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    if bytes.len() > max_packet_size as usize {
        return Err(EncodeError::TooLarge { len: bytes.len(), max: max_packet_size });
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Defines the packet type `$name`, whose content is that of [`Ack`].
macro_rules! ack_packet {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a> {
            /// The Packet Identifier of the PUBLISH packet ([MQTT-2.2.1-5]).
            pub packet_id: $crate::PacketId,
            /// How it went; always [`ReasonCode::Success`](crate::ReasonCode::Success) before MQTT 5.0, where
            /// encoding leaves it out.
            pub reason_code: $crate::ReasonCode,
            /// The Reason String, for people; MQTT 5.0 only.
            pub reason_string: Option<&'a str>,
            /// Pairs of the sender's own; MQTT 5.0 only.
            pub user_properties: $crate::UserProperties<'a>,
        }

        impl<'a> $name<'a> {
            /// A packet without properties.
            #[inline]
            pub const fn new(packet_id: $crate::PacketId, reason_code: $crate::ReasonCode) -> Self {
                Self {
                    packet_id,
                    reason_code,
                    reason_string: None,
                    user_properties: $crate::UserProperties::EMPTY,
                }
            }

            /// Decodes the body: the variable header and the payload.
            ///
            /// # Errors
            ///
            /// When the packet is malformed or a protocol error.
            pub fn decode(
                version: $crate::Version,
                first_byte: u8,
                body: &'a [u8],
            ) -> Result<Self, $crate::DecodeError> {
                Self::decode_with(version, first_byte, body, $crate::ack::Codes::OfPacket)
            }

            /// As `decode`, for packets of a server: it takes any Reason Code. One below 0x80 is a success, whatever its
            /// number (section 2.4); an unknown one above is an unspecified error. Servers in use send codes of other
            /// packets, and the connection would end over them again and again.
            ///
            /// # Errors
            ///
            /// As `decode`, but for the Reason Code.
            pub fn decode_of_server(
                version: $crate::Version,
                first_byte: u8,
                body: &'a [u8],
            ) -> Result<Self, $crate::DecodeError> {
                Self::decode_with(version, first_byte, body, $crate::ack::Codes::Any)
            }

            fn decode_with(
                version: $crate::Version,
                first_byte: u8,
                body: &'a [u8],
                codes: $crate::ack::Codes,
            ) -> Result<Self, $crate::DecodeError> {
                let packet = $crate::PacketType::$name;
                let ack = $crate::ack::Ack::decode(packet, version, first_byte, body, codes)?;
                Ok(Self {
                    packet_id: ack.packet_id,
                    reason_code: ack.reason_code,
                    reason_string: ack.explanation.reason_string,
                    user_properties: ack.explanation.user_properties,
                })
            }

            /// Appends the packet, in its shortest form.
            ///
            /// # Errors
            ///
            /// When the packet may not carry the Reason Code, or a property cannot be encoded.
            #[inline]
            pub fn encode(
                &self,
                version: $crate::Version,
                out: &mut Vec<u8>,
            ) -> Result<(), $crate::EncodeError> {
                self.encode_within(version, $crate::MAX_PACKET_SIZE, out)
            }

            /// As `encode`, for a receiver that takes packets of at most `max_packet_size` bytes: User
            /// Properties and Reason String are left out as far as the packet does not fit with them.
            ///
            /// # Errors
            ///
            /// As `encode`, and when the packet does not fit without them either.
            #[inline]
            pub fn encode_within(
                &self,
                version: $crate::Version,
                max_packet_size: u32,
                out: &mut Vec<u8>,
            ) -> Result<(), $crate::EncodeError> {
                let ack = $crate::ack::Ack {
                    packet_id: self.packet_id,
                    reason_code: self.reason_code,
                    explanation: $crate::explanation::Explanation {
                        reason_string: self.reason_string,
                        user_properties: self.user_properties,
                    },
                };
                ack.encode_within($crate::PacketType::$name, version, max_packet_size, out)
            }
        }
    };
}

pub(crate) use ack_packet;
