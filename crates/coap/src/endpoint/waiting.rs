//! Messages that wait for observers, bounded in number and in bytes.

use std::sync::Arc;

use super::observation::Observation;
use super::peer::Peer;
use super::wire::Wire;
use super::{Endpoint, PeerId, SessionId};
use crate::fields::Shown;
use crate::limits::MAX_WAITING;
use crate::{Failure, Outcome, ReasonCode};

impl Endpoint {
    /// Keeps the bounds of waiting messages after one was added for a client. Beyond a bound of bytes, messages of
    /// QoS 0 are left out first; then a session ends, since its messages of QoS 1 and 2 can neither wait nor be lost.
    pub(super) fn bound_waiting(&mut self, peer: PeerId) {
        while let Some(message) = self.wire.peers.get_mut(&peer).and_then(|known| known.take_oldest(MAX_WAITING)) {
            self.wire.counters.left_out += 1;
            self.wire.let_go(peer, message);
        }
        loop {
            let of = |id: &PeerId| self.wire.peers.get(id).map_or(0, |known| known.waiting_bytes);
            let fullest = if of(&peer) > self.settings.waiting_of_peer() {
                Some(peer)
            } else if self.wire.waiting_bytes > self.settings.waiting_of_all() {
                self.wire.peers.iter().max_by_key(|(id, known)| (known.waiting_bytes, **id)).map(|(id, _)| *id)
            } else {
                None
            };
            let Some(fullest) = fullest else { return };
            let Some(known) = self.wire.peers.get_mut(&fullest) else { return };
            if let Some(message) = known.take_oldest(0) {
                self.wire.counters.left_out += 1;
                self.wire.let_go(fullest, message);
            } else if let Some(session) = known.fullest_session() {
                let why = Some("too many bytes wait for this observer".to_owned());
                let failure = Failure::Refused(Outcome { code: ReasonCode::QuotaExceeded, why });
                self.close(session, &failure);
            } else {
                return;
            }
        }
    }
}

impl Wire {
    /// Counts a message that waits for observers of a client.
    pub(super) fn hold(&mut self, peer: PeerId, message: &Shown) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.waiting_bytes += message.size();
        self.waiting_bytes += message.size();
    }

    /// A message no longer waits for one of its observers; it is counted off with the last of them. Returns it.
    pub(super) fn let_go(&mut self, peer: PeerId, message: Arc<Shown>) -> Shown {
        let is_last = Arc::strong_count(&message) == 1;
        if is_last && let Some(known) = self.peers.get_mut(&peer) {
            known.waiting_bytes -= message.size();
            self.waiting_bytes -= message.size();
        }
        Arc::unwrap_or_clone(message)
    }
}

impl Peer {
    /// Takes the oldest message of QoS 0 of the observation with most of them, if it has more than `kept`.
    fn take_oldest(&mut self, kept: usize) -> Option<Arc<Shown>> {
        let of_qos_0 = |it: &Observation| it.waiting.iter().filter(|one| one.delivery.is_none()).count();
        let fullest = self.observations.iter_mut().filter(|it| of_qos_0(it) > kept).max_by_key(|it| of_qos_0(it))?;
        let at = fullest.waiting.iter().position(|one| one.delivery.is_none())?;
        fullest.waiting.remove(at).map(|one| one.message)
    }

    /// The session with most bytes in waiting messages.
    fn fullest_session(&self) -> Option<SessionId> {
        let bytes = |session: SessionId| {
            let ours = self.observations.iter().filter(|it| it.session == session);
            ours.flat_map(|it| &it.waiting).map(|one| one.message.size()).sum::<usize>()
        };
        let waits = self.observations.iter().filter(|it| !it.waiting.is_empty()).map(|it| it.session);
        waits.max_by_key(|session| (bytes(*session), *session))
    }
}
