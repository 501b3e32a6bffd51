//! Frames: where one packet ends and the next starts in a stream of bytes.

use crate::{PacketType, ReasonCode, varint};

/// The size of the largest packet that MQTT can express, in bytes: the fixed header (1 + 4) and the
/// greatest Remaining Length.
pub const MAX_PACKET_SIZE: u32 = 1 + 4 + varint::MAX_VARINT;

/// Why a stream of bytes cannot go on: there is no way to find the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The packet type is 0, which is reserved, or the Remaining Length is no Variable Byte Integer
    /// ([MQTT-1.5.5-1]).
    #[error("the fixed header of a packet is malformed")]
    Malformed,
    /// The packet is larger than the receiver takes ([MQTT-3.1.2-24], [MQTT-3.2.2-15]).
    #[error("a packet of {len} bytes is larger than the maximum packet size of {max}")]
    TooLarge {
        /// The size of the whole packet, in bytes.
        len: u32,
        /// The largest size that the receiver takes, in bytes.
        max: u32,
    },
}

impl FrameError {
    /// The Reason Code by which a DISCONNECT or CONNACK packet reports the error.
    pub const fn reason_code(&self) -> ReasonCode {
        match self {
            Self::Malformed => ReasonCode::MalformedPacket,
            Self::TooLarge { .. } => ReasonCode::PacketTooLarge,
        }
    }
}

/// One packet in a buffer, not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The first byte of the packet: its type and flags.
    pub first_byte: u8,
    /// The bytes after the fixed header: the variable header and the payload.
    pub body: &'a [u8],
    /// The size of the whole packet with its fixed header, in bytes.
    pub total_len: usize,
    packet_type: PacketType,
}

impl Frame<'_> {
    /// The type of the packet.
    #[inline]
    pub const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    /// The lower four bits of the first byte.
    #[inline]
    pub const fn flags(&self) -> u8 {
        self.first_byte & 0x0F
    }
}

/// The fixed header of a packet.
struct FixedHeader {
    packet_type: PacketType,
    /// The size of the fixed header itself, in bytes: 2 to 5.
    header_len: usize,
    /// The size of the whole packet, in bytes.
    total_len: u32,
}

#[inline]
fn fixed_header(buf: &[u8]) -> Result<Option<FixedHeader>, FrameError> {
    let Some((&first_byte, rest)) = buf.split_first() else {
        return Ok(None);
    };
    let packet_type = PacketType::from_first_byte(first_byte).ok_or(FrameError::Malformed)?;
    let decoded = varint::decode(rest).map_err(|_| FrameError::Malformed)?;
    Ok(decoded.map(|(remaining_len, varint_len)| FixedHeader {
        packet_type,
        header_len: 1 + varint_len,
        total_len: 1 + varint_len as u32 + remaining_len,
    }))
}

/// The size of the packet at the start of `buf`, in bytes. `Ok(None)` while its fixed header is incomplete.
///
/// # Errors
///
/// [`FrameError::Malformed`], at the first byte that shows it.
#[inline]
pub fn frame_len(buf: &[u8]) -> Result<Option<usize>, FrameError> {
    Ok(fixed_header(buf)?.map(|header| header.total_len as usize))
}

/// Splits the packet off the start of `buf`; `Ok(None)` when more bytes are needed.
///
/// # Errors
///
/// [`FrameError::Malformed`] at the first byte that shows it, and [`FrameError::TooLarge`] as soon as the
/// fixed header shows a packet of more than `max_packet_size` bytes.
#[inline]
pub fn split_frame(buf: &[u8], max_packet_size: u32) -> Result<Option<Frame<'_>>, FrameError> {
    let Some(header) = fixed_header(buf)? else {
        return Ok(None);
    };
    if header.total_len > max_packet_size {
        return Err(FrameError::TooLarge { len: header.total_len, max: max_packet_size });
    }
    let total_len = header.total_len as usize;
    match (buf.first(), buf.get(header.header_len..total_len)) {
        (Some(&first_byte), Some(body)) => {
            Ok(Some(Frame { first_byte, body, total_len, packet_type: header.packet_type }))
        }
        _ => Ok(None),
    }
}
