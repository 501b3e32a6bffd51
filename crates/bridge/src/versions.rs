//! The MQTT version for a broker whose version is not configured.

use tidegate_client::{Disconnected, ReasonCode, Version};

/// A way to introduce oneself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    pub(crate) version: Version,
    /// Before MQTT 5.0: whether the protocol level says that the client is a bridge, which some brokers know. To such a
    /// one its own messages do not return.
    pub(crate) bridge: bool,
}

/// The best first. Before MQTT 5.0 the protocol level of a bridge is the only way to ask that own messages do not come
/// back.
const LADDER: [Introduction; 3] = [
    Introduction { version: Version::V5, bridge: false },
    Introduction { version: Version::V311, bridge: true },
    Introduction { version: Version::V311, bridge: false },
];

/// Whether a connection that the broker has accepted is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    Kept,
    /// It is to be ended, and better ways are tried once more.
    InDoubt,
}

/// Tries them in turn until the broker takes one, and stays with that.
///
/// A broker that does not know a version may close the connection without a word. So does a broker that ends, or a proxy
/// whose broker is away. Therefore, when the broker takes a way after it closed better ones, these are tried once more at
/// once. Only if they are closed again and the same way is taken, the bridge stays with it.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    ways: Vec<Introduction>,
    at: usize,
    /// The best way that may be known: the better ones were refused with the reason, or twice without.
    best: usize,
    settled: bool,
    /// The way that was taken, while better ones are tried once more.
    fallback: Option<usize>,
    /// True if the better ones were closed once more just now.
    verified: bool,
}

impl Versions {
    pub(crate) fn new(version: Option<Version>) -> Self {
        let fits = |way: &&Introduction| version.is_none_or(|version| way.version == version);
        let mut ways: Vec<Introduction> = LADDER.iter().filter(fits).copied().collect();
        if ways.is_empty() {
            ways.extend(version.map(|version| Introduction { version, bridge: false }));
        }
        Self { ways, at: 0, best: 0, settled: false, fallback: None, verified: false }
    }

    /// The introduction to try now.
    pub(crate) fn present(&self) -> Introduction {
        self.ways.get(self.at).copied().unwrap_or(LADDER[0])
    }

    /// The broker has taken it.
    pub(crate) fn accepted(&mut self) -> Accepted {
        if self.at > self.best && !self.verified {
            self.fallback = Some(self.at);
            self.at = self.best;
            return Accepted::InDoubt;
        }
        (self.settled, self.best) = (true, self.at);
        (self.fallback, self.verified) = (None, false);
        Accepted::Kept
    }

    /// An attempt came to nothing, or the connection was ended since it was in doubt. Says whether another way is worth an
    /// attempt at once: the broker has refused this one for its version, or has closed the connection without a word.
    pub(crate) fn refused(&mut self, why: &Disconnected) -> bool {
        match why {
            Disconnected::Requested => self.fallback.is_some(),
            // A different broker at the same address may refuse a version that the previous broker accepted.
            Disconnected::Refused(dismissal) if dismissal.reason_code == ReasonCode::UnsupportedProtocolVersion => {
                if self.at == self.best {
                    self.best += 1;
                }
                self.settled = false;
                self.take_next()
            }
            // An older one may answer in words that this version does not have.
            Disconnected::TransportClosed | Disconnected::Protocol(_) if !self.settled => self.take_next(),
            _ => {
                if self.fallback.take().is_some() {
                    self.at = self.best;
                }
                self.verified = false;
                false
            }
        }
    }

    fn take_next(&mut self) -> bool {
        self.at += 1;
        if self.fallback == Some(self.at) {
            (self.fallback, self.verified) = (None, true);
            return true;
        }
        self.verified = false;
        if self.at < self.ways.len() {
            return true;
        }
        (self.at, self.best, self.fallback) = (0, 0, None);
        false
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
        assert_eq!(versions.accepted(), Accepted::Kept);
        assert!(!versions.refused(&Disconnected::TransportClosed), "it was taken before");
        assert_eq!(versions.present().version, Version::V5);
    }

    #[test]
    fn an_older_broker_in_place_of_a_newer_gets_its_version() {
        let mut versions = Versions::new(None);
        assert_eq!(versions.accepted(), Accepted::Kept);
        assert!(versions.refused(&refused(ReasonCode::UnsupportedProtocolVersion)));
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: true });
        assert!(versions.refused(&Disconnected::TransportClosed), "which it may not know either");
        assert_eq!(versions.present(), Introduction { version: Version::V311, bridge: false });
    }

    /// An end of a bridge whose broker closed this number of connections, and then accepted one, which is in doubt.
    fn in_doubt(closed: usize) -> Versions {
        let mut versions = Versions::new(None);
        for _ in 0..closed {
            assert!(versions.refused(&Disconnected::TransportClosed));
        }
        assert_eq!(versions.accepted(), Accepted::InDoubt);
        assert!(versions.refused(&Disconnected::Requested));
        assert_eq!(versions.present().version, Version::V5);
        versions
    }

    #[test]
    fn a_broker_that_was_away_behind_a_proxy_gets_the_best_version() {
        for closed in [1, 2] {
            let mut versions = in_doubt(closed);
            assert_eq!(versions.accepted(), Accepted::Kept);
            assert!(!versions.refused(&Disconnected::TransportClosed));
            assert_eq!(versions.present().version, Version::V5);
        }
    }

    #[test]
    fn a_broker_that_closes_a_version_again_gets_an_older_one() {
        let mut versions = in_doubt(2);
        for bridge in [true, false] {
            assert!(versions.refused(&Disconnected::TransportClosed));
            assert_eq!(versions.present(), Introduction { version: Version::V311, bridge });
        }
        assert_eq!(versions.accepted(), Accepted::Kept);
        assert!(!versions.refused(&Disconnected::TransportClosed));
        assert_eq!(versions.accepted(), Accepted::Kept, "also with the next connection");
    }

    #[test]
    fn a_failure_in_between_leaves_the_version_in_doubt() {
        let mut versions = in_doubt(1);
        assert!(!versions.refused(&Disconnected::ConnectTimeout));
        assert_eq!(versions.present().version, Version::V5);
        let mut versions = in_doubt(1);
        assert!(versions.refused(&Disconnected::TransportClosed));
        assert!(!versions.refused(&Disconnected::ConnectTimeout));
        assert_eq!(versions.accepted(), Accepted::InDoubt);
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
