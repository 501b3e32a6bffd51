//! The versions of the protocol that a case can speak.

use std::fmt;
use std::str::FromStr;

/// A version of MQTT, in the order of their publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1, whose protocol name is `MQIsdp`. The specification has no numbered statements.
    V31,
    /// MQTT 3.1.1 (OASIS and ISO/IEC 20922).
    V311,
    /// MQTT 5.0 (OASIS).
    V5,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Self; 3] = [Self::V31, Self::V311, Self::V5];

    /// The protocol name of a CONNECT packet of this version.
    pub fn protocol_name(self) -> &'static str {
        match self {
            Self::V31 => "MQIsdp",
            Self::V311 | Self::V5 => "MQTT",
        }
    }

    /// The protocol level (MQTT 5: protocol version) byte of a CONNECT packet of this version.
    pub fn level(self) -> u8 {
        match self {
            Self::V31 => 3,
            Self::V311 => 4,
            Self::V5 => 5,
        }
    }

    /// How the specification and the manifest write this version.
    pub fn label(self) -> &'static str {
        match self {
            Self::V31 => "3.1",
            Self::V311 => "3.1.1",
            Self::V5 => "5.0",
        }
    }

    /// Letters for client identifiers and topics, where a dot would be in the way.
    pub(crate) fn token(self) -> &'static str {
        match self {
            Self::V31 => "31",
            Self::V311 => "311",
            Self::V5 => "5",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.label())
    }
}

/// A text is no version of MQTT.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown version `{0}`, write 5, 311 or 31")]
pub struct UnknownVersion(String);

impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        match text {
            "31" | "3.1" => Ok(Self::V31),
            "311" | "3.1.1" => Ok(Self::V311),
            "5" | "5.0" | "50" => Ok(Self::V5),
            other => Err(UnknownVersion(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_read_back_from_their_labels_and_tokens() {
        for version in Version::ALL {
            assert_eq!(version.label().parse(), Ok(version));
            assert_eq!(version.token().parse(), Ok(version));
        }
        assert!("4".parse::<Version>().is_err());
    }
}
