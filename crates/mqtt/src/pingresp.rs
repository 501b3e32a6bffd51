//! PINGRESP: from server to client (section 3.13).

use crate::reader::check_empty;
use crate::{DecodeError, PacketType, Version};

/// A PINGRESP packet: the answer to a PINGREQ ([MQTT-3.12.4-1]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PingResp;

impl PingResp {
    /// The whole packet.
    pub const BYTES: [u8; 2] = [PacketType::PingResp.first_byte(), 0];

    /// Decodes the body, which must be empty.
    ///
    /// # Errors
    ///
    /// When the body is not empty, or a flag is set.
    pub fn decode(version: Version, first_byte: u8, body: &[u8]) -> Result<Self, DecodeError> {
        check_empty(PacketType::PingResp, version, first_byte, body)?;
        Ok(Self)
    }

    /// Appends the packet.
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&Self::BYTES);
    }
}
