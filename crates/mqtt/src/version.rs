//! The versions of the protocol.

/// The bit that a bridge adds to its Protocol Level before MQTT 5.0, by convention among brokers. The server then sends
/// the bridge none of its own messages, and leaves RETAIN as it was published. MQTT 5.0 has options for both.
pub(crate) const BRIDGE_BIT: u8 = 0x80;

/// A version of the MQTT protocol, as negotiated by the CONNECT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1: protocol name `MQIsdp`, level 3.
    V31,
    /// MQTT 3.1.1: protocol name `MQTT`, level 4.
    V311,
    /// MQTT 5.0: protocol name `MQTT`, level 5.
    V5,
}

impl Version {
    /// Whether packets of this version carry properties and reason codes.
    #[inline]
    pub const fn is_v5(self) -> bool {
        matches!(self, Self::V5)
    }

    /// The Protocol Name that a CONNECT packet of this version carries.
    pub const fn protocol_name(self) -> &'static str {
        match self {
            Self::V31 => "MQIsdp",
            Self::V311 | Self::V5 => "MQTT",
        }
    }

    /// The Protocol Level (called Protocol Version in MQTT 5.0) of a CONNECT packet.
    pub const fn protocol_level(self) -> u8 {
        match self {
            Self::V31 => 3,
            Self::V311 => 4,
            Self::V5 => 5,
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V31 => "3.1",
            Self::V311 => "3.1.1",
            Self::V5 => "5.0",
        })
    }
}
