//! Types of packets.

use std::fmt;

/// The packet types, by the number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketType {
    Connect = 1,
    Connack,
    Publish,
    Puback,
    Pubrec,
    Pubrel,
    Pubcomp,
    Subscribe,
    Suback,
    Unsubscribe,
    Unsuback,
    Pingreq,
    Pingresp,
    Disconnect,
    Auth,
}

impl PacketType {
    /// The type in the high four bits of a first byte; 0 is reserved.
    pub(crate) fn of(first_byte: u8) -> Option<Self> {
        let types = [
            Self::Connect,
            Self::Connack,
            Self::Publish,
            Self::Puback,
            Self::Pubrec,
            Self::Pubrel,
            Self::Pubcomp,
            Self::Subscribe,
            Self::Suback,
            Self::Unsubscribe,
            Self::Unsuback,
            Self::Pingreq,
            Self::Pingresp,
            Self::Disconnect,
            Self::Auth,
        ];
        types.into_iter().find(|candidate| *candidate as u8 == first_byte >> 4)
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{self:?}").to_uppercase())
    }
}
