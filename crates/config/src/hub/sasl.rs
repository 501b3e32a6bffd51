//! Passwords for the brokers of Kafka.

use tidegate_hub::SaslMechanism;

use crate::sections::cluster::BusSasl;

impl BusSasl {
    /// The mechanism that proves a password to the brokers of Kafka.
    pub(super) fn mechanism(self) -> SaslMechanism {
        match self {
            Self::Plain => SaslMechanism::Plain,
            Self::ScramSha256 => SaslMechanism::ScramSha256,
            Self::ScramSha512 => SaslMechanism::ScramSha512,
        }
    }
}
