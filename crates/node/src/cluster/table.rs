//! All sessions, and all other nodes of the view.

use std::collections::BTreeMap;

use tidegate_engine::Millis;

use super::NodeName;
use super::indirect::Notice;
use super::loss::Loss;
use super::peer::Peer;
use super::session::{Open, Phase, Session};
use super::slots::SessionId;
use super::status::LinkCounters;

/// Accepted connections whose other end is not known yet, at once: a further one replaces the oldest. Indirect sessions
/// of this kind, at once: further ones are refused.
pub(super) const MAX_STRANGERS: usize = 32;

/// Sessions and nodes.
#[derive(Debug)]
pub(super) struct LinkTable {
    pub(super) peers: BTreeMap<NodeName, Peer>,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// The number of the next session.
    pub(super) next_session: SessionId,
    /// Frames for carrying nodes whose sessions were being worked.
    pub(super) notices: Vec<Notice>,
    /// Sessions that frames of another session have ended, and why. They are lost when that session is in the table
    /// again: a roster without it would tell shards that its node has gone.
    pub(super) ended: Vec<(SessionId, Loss)>,
    /// Numbers of nodes that have left the view, or were never known.
    pub(super) past: LinkCounters,
}

impl Default for LinkTable {
    fn default() -> Self {
        Self {
            peers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            // Tokens below are the waker's and the listener's.
            next_session: 2,
            notices: Vec::new(),
            ended: Vec::new(),
            past: LinkCounters::default(),
        }
    }
}

impl LinkTable {
    /// Takes a session in, and gives it a number.
    pub(super) fn add(&mut self, session: Session) -> SessionId {
        let id = self.next_number();
        self.sessions.insert(id, session);
        id
    }

    /// The oldest accepted connection whose other end is not known yet, if the limit of them is reached.
    pub(super) fn surplus_stranger(&self) -> Option<SessionId> {
        let is_stranger = |session: &Session| {
            matches!(&session.phase, Phase::Shaking(shaking) if shaking.dialed().is_none()) && session.is_direct()
        };
        // Numbers of sessions count up.
        let mut strangers = self.sessions.iter().filter(|(_, session)| is_stranger(session)).map(|(id, _)| *id);
        let oldest = strangers.next()?;
        (strangers.count() + 1 >= MAX_STRANGERS).then_some(oldest)
    }

    /// The next number of a session.
    pub(super) fn next_number(&mut self) -> SessionId {
        let number = self.next_session;
        self.next_session += 1;
        number
    }

    /// Whether the node `own` has to connect to a node without a direct connection, open or under way.
    pub(super) fn is_to_dial(&self, own: &NodeName, peer: &Peer) -> bool {
        let is_indirect = |id: SessionId| {
            let session = self.sessions.get(&id);
            session.is_some_and(|it| matches!(it.phase, Phase::Open(_)) && it.carrier().is_some())
        };
        *own < peer.node.name && peer.session.is_none_or(|id| is_indirect(id) && peer.probe.is_none())
    }

    /// Notes why there is no session with a node.
    pub(super) fn note_failure(&mut self, name: &NodeName, loss: &Loss, now: Millis) {
        let Some(peer) = self.peers.get_mut(name) else { return };
        peer.counters.failures += 1;
        if peer.note_failure(now, loss.to_string()) {
            let address = peer.node.address;
            if loss.may_pass() {
                tracing::info!(node = %name, %address, "no link to another node of the cluster yet: {loss}");
            } else {
                tracing::warn!(node = %name, %address, "no link to another node of the cluster: {loss}");
            }
        }
    }

    /// Adds the counters of a session to the counters of its node.
    pub(super) fn count(&mut self, session: &mut Session) {
        let counted = std::mem::take(&mut session.counters);
        let name = match &session.phase {
            Phase::Open(open) => Some(&open.who.name),
            Phase::Seating(who) | Phase::Merging(who) => Some(&who.name),
            Phase::Connecting(node) => Some(&node.name),
            Phase::Shaking(shaking) => shaking.dialed().map(|node| &node.name),
        };
        match name.and_then(|name| self.peers.get_mut(name)) {
            Some(peer) => peer.counters.add(&counted),
            None => self.past.add(&counted),
        }
    }

    /// Notes the state of the session with a node.
    pub(super) fn show_state(&mut self, open: &Open, unix: u64) {
        if let Some(peer) = self.peers.get_mut(&open.who.name) {
            peer.set_state(open.state(), unix);
        }
    }
}
