//! Takes fields off the front of a packet's body.

use crate::string::{self, StringError};
use crate::varint;
use crate::{DecodeError, PacketId, PacketType, ReasonCode, TopicError, TopicName, Version};

/// The bytes of a packet that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The unread bytes.
    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The packet ends here, or it is malformed.
    pub(crate) const fn finish(self, packet: PacketType) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { packet, count }),
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(DecodeError::Truncated { field })?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(DecodeError::Truncated { field })?;
        self.bytes = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let decoded = varint::decode(self.bytes).map_err(|error| DecodeError::InvalidVarint { field, error })?;
        let (value, len) = decoded.ok_or(DecodeError::Truncated { field })?;
        self.take(len, field)?;
        Ok(value)
    }

    /// Binary Data: a length of two bytes and as many bytes.
    #[inline]
    pub(crate) fn data(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.u16(field)?;
        self.take(usize::from(len), field)
    }

    /// A UTF-8 Encoded String.
    #[inline]
    pub(crate) fn string(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        string::from_utf8(self.data(field)?).map_err(|error| DecodeError::InvalidString { field, error })
    }

    /// A UTF-8 Encoded String that must be a Topic Name.
    pub(crate) fn topic_name(&mut self, field: &'static str) -> Result<TopicName<'a>, DecodeError> {
        topic_name(self.data(field)?, field)
    }

    /// The Packet Identifier of `packet`.
    #[inline]
    pub(crate) fn packet_id(&mut self, packet: PacketType) -> Result<PacketId, DecodeError> {
        PacketId::new(self.u16("packet identifier")?).ok_or(DecodeError::ZeroPacketId { packet })
    }

    /// A Reason Code that `packet` may carry.
    pub(crate) fn reason_code(&mut self, packet: PacketType) -> Result<ReasonCode, DecodeError> {
        let code = self.u8("reason code")?;
        ReasonCode::from_byte(code)
            .filter(|reason| reason.allowed_in(packet))
            .ok_or(DecodeError::InvalidReasonCode { packet, code })
    }

    /// A Reason Code of any packet. An unknown one keeps only its meaning: below 0x80 success, else an error.
    pub(crate) fn any_reason_code(&mut self) -> Result<ReasonCode, DecodeError> {
        let code = self.u8("reason code")?;
        let unknown = if code < 0x80 { ReasonCode::Success } else { ReasonCode::UnspecifiedError };
        Ok(ReasonCode::from_byte(code).unwrap_or(unknown))
    }

    /// A block of properties: its length and as many bytes.
    #[expect(clippy::inline_always, reason = "a separate call costs each message 15 instructions")]
    #[inline(always)]
    pub(crate) fn property_block(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.varint("property length")?;
        self.take(len as usize, "properties")
    }
}

/// Reads `bytes` as a Topic Name. Text that is malformed as a string is reported as such.
pub(crate) fn topic_name<'a>(bytes: &'a [u8], field: &'static str) -> Result<TopicName<'a>, DecodeError> {
    TopicName::from_utf8(bytes).map_err(|error| match error {
        TopicError::IllFormed => DecodeError::InvalidString { field, error: StringError::IllFormed },
        TopicError::Null => DecodeError::InvalidString { field, error: StringError::Null },
        error => DecodeError::InvalidTopicName { field, error },
    })
}

/// Checks the flags in the first byte of a packet whose flags are fixed ([MQTT-2.1.3-1]).
#[inline]
pub(crate) const fn check_flags(packet: PacketType, version: Version, first_byte: u8) -> Result<(), DecodeError> {
    let flags = first_byte & 0x0F;
    if packet.accepts_flags(version, flags) { Ok(()) } else { Err(DecodeError::InvalidFlags { packet, flags }) }
}

/// Checks a packet that is its fixed header only.
pub(crate) fn check_empty(
    packet: PacketType,
    version: Version,
    first_byte: u8,
    body: &[u8],
) -> Result<(), DecodeError> {
    check_flags(packet, version, first_byte)?;
    Reader::new(body).finish(packet)
}
