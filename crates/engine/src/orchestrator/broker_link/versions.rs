//! The MQTT version for a broker whose version is not configured.
//!
//! A broker that does not know MQTT 5.0 may close the connection without an answer. So does a broker that ends, or a
//! proxy whose broker is away. Therefore, when the broker takes 3.1.1 after such a close, MQTT 5.0 is tried once more at
//! once. Only if that is closed again, the connection stays with 3.1.1.

use super::BrokerLink;
use tidegate_mqtt::Version;

/// The evidence against MQTT 5.0 at a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Objection {
    /// Nothing.
    #[default]
    None,
    /// The broker has closed it without an answer.
    Closed,
    /// The broker has taken 3.1.1 after that, on a connection that is to be ended.
    Taken,
    /// MQTT 5.0 is tried once more.
    InDoubt,
    /// The broker has closed that, too.
    ClosedAgain,
    /// The broker has said that it does not know the version.
    Refused,
}

/// Whether a connection that the broker has accepted is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// It is kept.
    Kept,
    /// It is kept, in 3.1.1 after two closes without a word.
    KeptOlder,
    /// It is to be ended, and MQTT 5.0 is tried once more.
    InDoubt,
}

impl BrokerLink {
    /// The broker does not know the version: the next attempt uses the other one, unless the version is configured.
    pub(crate) fn try_other_version(&mut self) {
        if self.options.version.is_none() {
            self.objection = if self.version.is_v5() { Objection::Refused } else { Objection::None };
            self.version = if self.version.is_v5() { Version::V311 } else { Version::V5 };
        }
    }

    /// The broker has accepted the connection.
    pub(crate) fn note_accepted(&mut self) -> Acceptance {
        let is_older = self.options.version.is_none() && !self.version.is_v5();
        match self.objection {
            Objection::Closed if is_older => {
                (self.objection, self.version) = (Objection::Taken, Version::V5);
                return Acceptance::InDoubt;
            }
            Objection::ClosedAgain if is_older => {
                self.accepted = Some(self.version);
                return Acceptance::KeptOlder;
            }
            Objection::Refused if is_older => {}
            _ => self.objection = Objection::None,
        }
        self.accepted = Some(self.version);
        Acceptance::Kept
    }

    /// The broker has closed the connection without an answer to CONNECT. One that has answered in MQTT 5.0 is only
    /// starting, and its messages in flight to the orchestrator would lose their ids in an older version.
    ///
    /// Returns whether the next attempt begins at once.
    pub(crate) fn note_silent_close(&mut self) -> bool {
        if self.options.version.is_some() || self.accepted == Some(Version::V5) {
            return false;
        }
        (self.objection, self.version) = match (self.objection, self.version.is_v5()) {
            (Objection::InDoubt, true) => (Objection::ClosedAgain, Version::V311),
            (_, true) => (Objection::Closed, Version::V311),
            (_, false) => (Objection::None, Version::V5),
        };
        self.objection == Objection::ClosedAgain
    }

    /// An attempt has failed for a reason that says nothing of versions, such as a broker that is away, or a connection
    /// was ended since it was in doubt. Returns whether the next attempt begins at once.
    pub(crate) fn note_failed_attempt(&mut self) -> bool {
        let was = self.objection;
        self.objection = match was {
            Objection::Taken => Objection::InDoubt,
            Objection::InDoubt => Objection::None,
            Objection::ClosedAgain => Objection::Closed,
            other => other,
        };
        was == Objection::Taken
    }

    /// An accepted connection has ended. The broker may be another one when it returns, or have closed for another
    /// reason: only a refusal in words stays.
    pub(crate) fn note_lost(&mut self) {
        if self.options.version.is_none() && self.objection != Objection::Refused {
            (self.objection, self.version) = (Objection::None, Version::V5);
        }
    }
}
