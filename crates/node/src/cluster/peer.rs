//! The state of another node of the view, with a session or without.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_engine::Millis;

use super::NodeName;
use super::session::after;
use super::settings::LinkLimits;
use super::slots::SessionId;
use super::status::{LinkCounters, LinkState, PeerStatus};
use super::view::PeerNode;

/// How often the log hears of a failure that stays the same, milliseconds.
const REPEAT_FAILURE_MS: u64 = 60_000;

/// Another node of the view.
#[derive(Debug)]
pub(super) struct Peer {
    pub node: PeerNode,
    /// Its session, or the attempt at one that this node has begun.
    pub session: Option<SessionId>,
    /// The attempt at a direct connection while the session is indirect.
    pub probe: Option<SessionId>,
    /// The direct way has failed: another node is asked to carry the next attempt, where there is one.
    pub goes_around: bool,
    /// Attempts that others were asked to carry: each in its turn.
    pub turns: usize,
    /// Nodes that had no room to carry a session with it, and until when they are not asked again.
    pub without_room: BTreeMap<NodeName, Millis>,
    pub state: LinkState,
    /// Since when, milliseconds since 1970.
    pub since: u64,
    pub counters: LinkCounters,
    /// When the next attempt may be made.
    pub retry_at: Millis,
    wait: Duration,
    last_failure: Option<String>,
    /// Time of the last log line about it.
    logged: Millis,
}

impl Peer {
    pub(super) fn new(node: PeerNode, since: u64) -> Self {
        Self {
            node,
            session: None,
            probe: None,
            goes_around: false,
            turns: 0,
            without_room: BTreeMap::new(),
            state: LinkState::Dialing,
            since,
            counters: LinkCounters::default(),
            retry_at: Millis(0),
            wait: Duration::ZERO,
            last_failure: None,
            logged: Millis(0),
        }
    }

    /// Notes how far things are.
    pub(super) fn set_state(&mut self, state: LinkState, unix: u64) {
        if self.state != state {
            self.state = state;
            self.since = unix;
        }
    }

    /// The session is there: the next failure is a new one.
    pub(super) fn note_success(&mut self) {
        self.wait = Duration::ZERO;
        self.logged = Millis(0);
    }

    /// Waits before the next attempt, twice as long as the last time, within the limits.
    pub(super) fn back_off(&mut self, now: Millis, limits: &LinkLimits) {
        let doubled = self.wait.saturating_mul(2);
        self.wait = doubled.clamp(limits.retry_first, limits.retry_longest.max(limits.retry_first));
        self.retry_at = after(now, self.wait);
    }

    /// Notes why there is no session; returns whether to log it: if it is new, and then rarely.
    pub(super) fn note_failure(&mut self, now: Millis, why: String) -> bool {
        let known = self.last_failure.as_ref() == Some(&why);
        let tell = !known || self.logged == Millis(0) || now.since(self.logged) >= REPEAT_FAILURE_MS;
        self.last_failure = Some(why);
        if tell {
            self.logged = now;
        }
        tell
    }

    /// Its status; the caller adds the fields that only a session knows.
    pub(super) fn status(&self) -> PeerStatus {
        PeerStatus {
            name: self.node.name.clone(),
            incarnation: self.node.incarnation,
            address: self.node.address,
            state: self.state,
            through: None,
            since: self.since,
            rtt_us: None,
            shards: None,
            waiting_bytes: 0,
            counters: self.counters,
            last_failure: self.last_failure.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        let address = "127.0.0.1:1".parse().unwrap();
        Peer::new(PeerNode { name: NodeName::new("b").unwrap(), incarnation: 1, address }, 0)
    }

    #[test]
    fn waits_double_up_to_a_limit_and_reset_after_a_session() {
        let limits = LinkLimits {
            retry_first: Duration::from_millis(100),
            retry_longest: Duration::from_millis(350),
            ..LinkLimits::default()
        };
        let mut peer = peer();
        let mut waits = Vec::new();
        for _ in 0..4 {
            peer.back_off(Millis(1000), &limits);
            waits.push(peer.retry_at.since(Millis(1000)));
        }
        peer.note_success();
        peer.back_off(Millis(1000), &limits);
        waits.push(peer.retry_at.since(Millis(1000)));
        assert_eq!(waits, [100, 200, 350, 350, 100]);
    }

    #[test]
    fn a_new_failure_is_logged_at_once_and_later_rarely() {
        let mut peer = peer();
        assert!(peer.note_failure(Millis(1000), "refused".into()));
        assert!(!peer.note_failure(Millis(2000), "refused".into()));
        assert!(peer.note_failure(Millis(3000), "another secret".into()));
        assert!(!peer.note_failure(Millis(3000 + REPEAT_FAILURE_MS - 1), "another secret".into()));
        assert!(peer.note_failure(Millis(3000 + REPEAT_FAILURE_MS), "another secret".into()));
    }
}
