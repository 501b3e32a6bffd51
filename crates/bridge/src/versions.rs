//! The MQTT version for a broker whose version is not configured.

use tidegate_client::{Disconnected, ReasonCode, Version};

/// A way to introduce oneself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    pub(crate) version: Version,
    /// Before MQTT 5.0: whether the protocol level says that the client is a bridge, which some brokers know. To such a
    /// one its own messages do not come back.
    pub(crate) bridge: bool,
}

/// The best first. Before MQTT 5.0 the protocol level of a bridge is the only way to ask that own messages do not come
/// back.
const LADDER: [Introduction; 3] = [
    Introduction { version: Version::V5, bridge: false },
    Introduction { version: Version::V311, bridge: true },
    Introduction { version: Version::V311, bridge: false },
];

/// Tries them in turn until the broker takes one, and stays with that.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    ways: Vec<Introduction>,
    at: usize,
    settled: bool,
}

impl Versions {
    pub(crate) fn new(version: Option<Version>) -> Self {
        let fits = |way: &&Introduction| version.is_none_or(|version| way.version == version);
        let mut ways: Vec<Introduction> = LADDER.iter().filter(fits).copied().collect();
        if ways.is_empty() {
            ways.extend(version.map(|version| Introduction { version, bridge: false }));
        }
        Self { ways, at: 0, settled: false }
    }

    /// What to try now.
    pub(crate) fn present(&self) -> Introduction {
        self.ways.get(self.at).copied().unwrap_or(LADDER[0])
    }

    /// The broker has taken it.
    pub(crate) fn accepted(&mut self) {
        self.settled = true;
    }

    /// An attempt came to nothing. Says whether another way is worth an attempt at once: the broker has refused this
    /// one for its version, or has closed the connection without a word, as some do that do not know it.
    pub(crate) fn refused(&mut self, why: &Disconnected) -> bool {
        let for_version = match why {
            // So it says also when another broker has come in the place of one that has taken it.
            Disconnected::Refused(dismissal) => {
                matches!(dismissal.reason_code, ReasonCode::UnsupportedProtocolVersion)
            }
            // An older one may answer in words that this version does not have.
            Disconnected::TransportClosed | Disconnected::Protocol(_) => !self.settled,
            _ => false,
        };
        if !for_version {
            return false;
        }
        self.settled = false;
        self.at = (self.at + 1) % self.ways.len().max(1);
        self.at != 0
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::Dismissal;

    use super::*;

    fn refused(code: ReasonCode) -> Disconnected {
        Disconnected::Refused(Box::new(Dismissal {
            reason_code: code,
            reason_string: None,
            server_reference: None,
            user_properties: Vec::new(),
        }))
    }

    #[test]
    fn a_broker_is_asked_for_the_best_that_it_knows() {
        let mut versions = Versions::new(None);
        assert_eq!(versions.present().version, Version::V5);
        assert!(versions.refused(&refused(ReasonCode::UnsupportedProtocolVersion)));
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: true });
        assert!(versions.refused(&Disconnected::TransportClosed), "some close without a word");
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: false });
        assert!(!versions.refused(&Disconnected::TransportClosed), "after the last one it is time to wait");
        assert_eq!(versions.present().version, Version::V5);
    }

    #[test]
    fn other_errors_change_no_version() {
        let mut versions = Versions::new(None);
        assert!(!versions.refused(&refused(ReasonCode::BadUserNameOrPassword)));
        assert_eq!(versions.present().version, Version::V5);
        versions.accepted();
        assert!(!versions.refused(&Disconnected::TransportClosed), "it was taken before");
        assert_eq!(versions.present().version, Version::V5);
    }

    #[test]
    fn an_older_broker_in_place_of_a_newer_gets_its_version() {
        let mut versions = Versions::new(None);
        versions.accepted();
        assert!(versions.refused(&refused(ReasonCode::UnsupportedProtocolVersion)));
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: true });
        assert!(versions.refused(&Disconnected::TransportClosed), "which it may not know either");
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: false });
    }

    #[test]
    fn a_configured_version_is_kept() {
        let mut versions = Versions::new(Some(Version::V311));
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: true });
        assert!(versions.refused(&Disconnected::TransportClosed));
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: false });
        assert_eq!(Versions::new(Some(Version::V31)).present().version, Version::V31);
    }
}
