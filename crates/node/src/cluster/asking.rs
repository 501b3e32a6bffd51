//! Questions between nodes, as the links carry them.

use std::sync::mpsc::Sender;

use super::NodeName;
use super::links::Links;
use super::loss::Loss;
use super::questions::{has_room, may_ask};
use super::session::{Phase, Session};
use super::slots::SessionId;
use super::to_links::{AskError, LinksSender, PeerEvent};
use super::wire::Frame;

impl Links {
    /// Sends events to this listener from now on, beginning with the existing sessions.
    pub(super) fn listen_to_peers(&mut self, listener: Sender<PeerEvent>, links: LinksSender) {
        self.questions.listen(listener, links);
        for session in self.table.sessions.values() {
            if let Phase::Open(open) = &session.phase {
                self.questions.note_linked(&open.who.name);
            }
        }
    }

    /// Asks another node.
    pub(super) fn ask(&mut self, node: &NodeName, body: &[u8], answer: Sender<Result<Vec<u8>, AskError>>) {
        let id = self.table.peers.get(node).and_then(|peer| peer.session);
        let session =
            id.and_then(|id| self.table.sessions.get_mut(&id)).filter(|it| matches!(it.phase, Phase::Open(_)));
        let (Some(session), Some(id)) = (session, id) else {
            let _ = answer.send(Err(AskError::NotLinked));
            return;
        };
        if !matches!(&session.phase, Phase::Open(open) if has_room(open, body)) {
            let _ = answer.send(Err(AskError::Busy));
            return;
        }
        let number = self.questions.note_asked(id, answer);
        session.put(&Frame::Question { number, body });
    }

    /// Hands a question of another node to the listener.
    pub(super) fn take_question(
        &mut self,
        id: SessionId,
        session: &mut Session,
        number: u64,
        body: &[u8],
    ) -> Result<(), Loss> {
        let Phase::Open(open) = &mut session.phase else { return Err(Loss::OutOfPlace) };
        if may_ask(open, body) && self.questions.hand_over(open.who.name.clone(), body, (id, number)) {
            open.answering += 1;
            open.answering_bytes += body.len() as u64;
        } else {
            session.put(&Frame::Answer { number, body: &[] });
        }
        Ok(())
    }
}
