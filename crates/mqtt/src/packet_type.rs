//! The types of MQTT Control Packets.

use crate::Version;

/// The type of an MQTT Control Packet: the upper four bits of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// Connection request, from client to server.
    Connect = 1,
    /// Connect acknowledgement, from server to client.
    ConnAck = 2,
    /// Publish message, either way.
    Publish = 3,
    /// Publish acknowledgement (QoS 1), either way.
    PubAck = 4,
    /// Publish received (QoS 2, part 1), either way.
    PubRec = 5,
    /// Publish release (QoS 2, part 2), either way.
    PubRel = 6,
    /// Publish complete (QoS 2, part 3), either way.
    PubComp = 7,
    /// Subscribe request, from client to server.
    Subscribe = 8,
    /// Subscribe acknowledgement, from server to client.
    SubAck = 9,
    /// Unsubscribe request, from client to server.
    Unsubscribe = 10,
    /// Unsubscribe acknowledgement, from server to client.
    UnsubAck = 11,
    /// Ping request, from client to server.
    PingReq = 12,
    /// Ping response, from server to client.
    PingResp = 13,
    /// Disconnect notification: from client to server, in MQTT 5.0 either way.
    Disconnect = 14,
    /// Authentication exchange, either way, MQTT 5.0 only.
    Auth = 15,
}

impl PacketType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Connect,
        Self::ConnAck,
        Self::Publish,
        Self::PubAck,
        Self::PubRec,
        Self::PubRel,
        Self::PubComp,
        Self::Subscribe,
        Self::SubAck,
        Self::Unsubscribe,
        Self::UnsubAck,
        Self::PingReq,
        Self::PingResp,
        Self::Disconnect,
        Self::Auth,
    ];

    /// The type in the upper four bits of a packet's first byte; `None` for type 0, which is reserved.
    #[inline]
    pub const fn from_first_byte(first_byte: u8) -> Option<Self> {
        Some(match first_byte >> 4 {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// The name of the packet as the specification writes it, for example `PUBACK`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::ConnAck => "CONNACK",
            Self::Publish => "PUBLISH",
            Self::PubAck => "PUBACK",
            Self::PubRec => "PUBREC",
            Self::PubRel => "PUBREL",
            Self::PubComp => "PUBCOMP",
            Self::Subscribe => "SUBSCRIBE",
            Self::SubAck => "SUBACK",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::UnsubAck => "UNSUBACK",
            Self::PingReq => "PINGREQ",
            Self::PingResp => "PINGRESP",
            Self::Disconnect => "DISCONNECT",
            Self::Auth => "AUTH",
        }
    }

    /// The flags that the lower four bits of the first byte must show; `None` for PUBLISH, whose flags
    /// vary ([MQTT-2.1.3-1], [MQTT-3.6.1-1], [MQTT-3.8.1-1], [MQTT-3.10.1-1]).
    #[inline]
    pub const fn required_flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => Some(0b0010),
            _ => Some(0),
        }
    }

    /// The first byte of a packet of this type with the required flags; PUBLISH gets none set.
    #[inline]
    pub(crate) const fn first_byte(self) -> u8 {
        let flags = match self.required_flags() {
            Some(flags) => flags,
            None => 0,
        };
        (self as u8) << 4 | flags
    }

    /// Whether `flags` are those which a packet of this type must show in `version`.
    ///
    /// MQTT 3.1 calls the flags of packets other than PUBLISH unused, save the QoS bits (always 1) and DUP
    /// of PUBREL, SUBSCRIBE and UNSUBSCRIBE, so only those QoS bits are checked there.
    #[inline]
    pub(crate) const fn accepts_flags(self, version: Version, flags: u8) -> bool {
        match (self.required_flags(), version) {
            (None, _) | (Some(0), Version::V31) => true,
            (Some(required), Version::V31) => flags & 0b0110 == required,
            (Some(required), _) => flags == required,
        }
    }
}

impl std::fmt::Display for PacketType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
