//! Sessions whose bytes a third node carries, while the direct connection between two nodes is cut.
//!
//! The node that dials asks another node, with which both have a direct session, to carry the bytes of the session: as
//! frames of the two direct sessions, which have their own proofs and encryption. The session is like any other. A
//! carrying node keeps no state for it and never asks a further node: a path has one node between its two ends.
//! The dialing node keeps trying a direct connection, and the session moves there without an interruption: each side
//! marks its last byte on the old path.

use mio::Registry;
use tidegate_engine::Millis;

use super::handshake::{Freshness, Handshake, LocalNode, PeerInfo};
use super::indirect::{Indirect, Notice};
use super::loss::Loss;
use super::session::{Phase, Session};
use super::slots::SessionId;
use super::table::{LinkTable, MAX_STRANGERS};
use super::wire::{Frame, Part, Portion};
use super::{NodeName, PeerNode};

/// Bytes of a session that are carried in one frame.
const PORTION_BYTES: usize = 64 * 1024;
/// Bytes that wait for the carrying node; beyond them, the rest stays in the outbox of the indirect session.
const CARRIED_AHEAD: usize = 256 * 1024;
/// Carried bytes may take this fraction (one part in `n`) of the bytes that may wait for a node. An indirect session
/// without room ends, and its nodes do not ask for it again for a time.
const CARRIED_SHARE: u64 = 4;

/// Sessions that have ended, and why.
type Lost = Vec<(SessionId, Loss)>;

impl Session {
    /// Puts output before the node that carries it, as far as there is room.
    fn hand_to(&mut self, carrier: &mut Session, now: Millis) -> Result<(), Loss> {
        while carrier.unwritten() < CARRIED_AHEAD && self.refill(now)? {
            let Some(indirect) = &self.indirect else { return Ok(()) };
            let left = self.left();
            let body = left.get(..PORTION_BYTES).unwrap_or(left);
            carrier.put(&Frame::Carry(indirect.portion(Part::Data, body)));
            let length = body.len();
            self.advance(now, length);
        }
        Ok(())
    }

    /// Whether another node carries it over this session of that node.
    fn is_carried_by(&self, carrier: SessionId) -> bool {
        self.indirect.as_ref().is_some_and(|indirect| indirect.is_carried() && indirect.carrier == carrier)
    }
}

impl LinkTable {
    /// Carries a part of a session from one node to another. `limit` is the number of bytes that may wait for a node.
    pub(super) fn carry(&mut self, session: &mut Session, portion: &Portion<'_>, limit: u64) -> Result<(), Loss> {
        let (Phase::Open(open), None) = (&session.phase, &session.indirect) else { return Err(Loss::OutOfPlace) };
        let (from, to, number) = (open.who.name.clone(), portion.node.clone(), portion.number);
        let Some(target) = self.direct_session(&to) else {
            if !matches!(portion.part, Part::End | Part::Unreachable | Part::NoRoom) {
                session.put(&Frame::Carried(Portion::empty(to, number, Part::Unreachable)));
            }
            return Ok(());
        };
        if portion.part == Part::Data && target.waiting_carried() > limit / CARRIED_SHARE {
            target.put(&Frame::Carried(Portion::empty(from, number, Part::NoRoom)));
            session.put(&Frame::Carried(Portion::empty(to, number, Part::NoRoom)));
            return Ok(());
        }
        session.counters.carried_bytes += portion.body.len() as u64;
        target.put_carried(Portion { node: from, ..*portion });
        Ok(())
    }

    /// The direct session with a node.
    fn direct_session(&mut self, name: &NodeName) -> Option<&mut Session> {
        let id = self.peers.get(name)?.session?;
        let session = self.sessions.get_mut(&id)?;
        (matches!(session.phase, Phase::Open(_)) && session.is_direct()).then_some(session)
    }

    /// Takes a part of an indirect session that a node has carried here over `session`, which is being worked. `own` is
    /// this node; a session that begins has to be open by `deadline`. Sessions that end are noted in `ended`.
    pub(super) fn take_carried(
        &mut self,
        carrier: SessionId,
        session: &mut Session,
        portion: &Portion<'_>,
        own: &NodeName,
        limit: u64,
        deadline: Millis,
    ) -> Result<(), Loss> {
        let (Phase::Open(open), None) = (&session.phase, &session.indirect) else { return Err(Loss::OutOfPlace) };
        let through = open.who.name.clone();
        let is_it = |session: &Session| session.indirect.as_ref().is_some_and(|it| it.is(carrier, portion));
        let found: Vec<SessionId> =
            self.sessions.iter().filter(|(_, session)| is_it(session)).map(|(id, _)| *id).collect();
        let (node, number) = (portion.node.clone(), portion.number);
        match (portion.part, found.first()) {
            (Part::Begin, None) if self.takes_indirect(own, &node) => {
                self.begin_indirect(Indirect::new(carrier, through, node, number), deadline);
            }
            (Part::Data | Part::Last, Some(id)) => {
                let Some(Session { indirect: Some(indirect), readable, .. }) = self.sessions.get_mut(id) else {
                    return Ok(());
                };
                *readable = true;
                indirect.arrived.extend(portion.body);
                indirect.is_complete |= portion.part == Part::Last;
                if indirect.arrived.len() as u64 > limit {
                    self.ended.push((*id, Loss::Overflow(limit)));
                }
            }
            (Part::End, Some(id)) => {
                // The bytes that arrived are read first.
                let Some(Session { indirect: Some(indirect), readable, .. }) = self.sessions.get_mut(id) else {
                    return Ok(());
                };
                *readable = true;
                indirect.is_over = true;
            }
            (Part::Unreachable, Some(_)) => {
                self.ended.extend(found.iter().map(|id| (*id, Loss::Unreachable(through.clone()))));
            }
            (Part::NoRoom, Some(id)) => self.ended.push((*id, Loss::NoRoom(through))),
            (Part::End | Part::Unreachable | Part::NoRoom, None) => {}
            // The session has ended here, or this node is the one to dial.
            (Part::Begin | Part::Data | Part::Last, _) => {
                session.put(&Frame::Carry(Portion::empty(node, number, Part::End)));
            }
        }
        Ok(())
    }

    /// Whether a node may begin an indirect session with the node `own`: the one with the smaller name does.
    fn takes_indirect(&self, own: &NodeName, node: &NodeName) -> bool {
        let unknown = |session: &&Session| !session.is_direct() && !matches!(session.phase, Phase::Open(_));
        let strangers = self.sessions.values().filter(unknown).count();
        node < own && self.peers.contains_key(node) && strangers < MAX_STRANGERS
    }

    fn begin_indirect(&mut self, indirect: Indirect, deadline: Millis) {
        let Some(address) = self.peers.get(&indirect.with).map(|peer| peer.node.address) else { return };
        let phase = Phase::Shaking(Box::new(Handshake::listen()));
        self.add(Session::carried(indirect, address, phase, deadline));
    }

    /// A node had no room to carry a session with another node: it is not asked again until some time.
    pub(super) fn note_no_room(&mut self, with: &NodeName, through: &NodeName, now: Millis, until: Millis) {
        let Some(peer) = self.peers.get_mut(with) else { return };
        peer.without_room.retain(|_, until| *until > now);
        peer.without_room.insert(through.clone(), until);
    }

    /// Nodes that could carry a session with another node: all with a direct session that had room the last time.
    pub(super) fn carriers(&self, of: &NodeName, now: Millis) -> Vec<(SessionId, NodeName)> {
        let without_room = self.peers.get(of).map(|peer| &peer.without_room);
        let has_room = |name: &NodeName| without_room.and_then(|all| all.get(name)).is_none_or(|until| *until <= now);
        let others = self.peers.values().filter(|peer| peer.node.name != *of && has_room(&peer.node.name));
        let direct = |id: SessionId| {
            let session = self.sessions.get(&id)?;
            (matches!(session.phase, Phase::Open(_)) && session.is_direct()).then_some(id)
        };
        others.filter_map(|peer| Some((direct(peer.session?)?, peer.node.name.clone()))).collect()
    }

    /// Begins a session with a node, which another node carries.
    pub(super) fn dial_around(
        &mut self,
        local: &LocalNode,
        node: PeerNode,
        (carrier, through): (SessionId, NodeName),
        freshness: Freshness,
        deadline: Millis,
    ) {
        let mut hello = Vec::new();
        let (name, address) = (node.name.clone(), node.address);
        let shaking = Handshake::dial(local, node, 0, freshness, &mut hello);
        let indirect = Indirect::new(carrier, through, name.clone(), self.next_number());
        if let Some(session) = self.sessions.get_mut(&carrier) {
            session.put(&Frame::Carry(indirect.portion(Part::Begin, &[])));
        }
        let mut session = Session::carried(indirect, address, Phase::Shaking(Box::new(shaking)), deadline);
        session.output().extend_from_slice(&hello);
        let id = self.add(session);
        if let Some(peer) = self.peers.get_mut(&name) {
            peer.session = Some(id);
        }
    }

    /// Puts the output of indirect sessions before the nodes that carry them. Returns the sessions that have ended.
    pub(super) fn hand_over(&mut self, now: Millis) -> Lost {
        for Notice { carrier, portion, body } in std::mem::take(&mut self.notices) {
            if let Some(session) = self.sessions.get_mut(&carrier) {
                session.put(&Frame::Carry(Portion { body: &body, ..portion }));
            }
        }
        let carried = self.sessions.iter().filter_map(|(id, session)| Some((*id, session.carrier()?)));
        let carried: Vec<(SessionId, SessionId)> = carried.collect();
        let mut lost = Lost::new();
        for (id, carrier) in carried {
            let Some(mut session) = self.sessions.remove(&id) else { continue };
            if let Some(carrier) = self.sessions.get_mut(&carrier)
                && let Err(loss) = session.hand_to(carrier, now)
            {
                lost.push((id, loss));
            }
            self.sessions.insert(id, session);
        }
        lost
    }

    /// Whether a session has output for a carrying node that has room.
    pub(super) fn may_hand_over(&self, session: &Session) -> bool {
        let carrier = session.carrier().and_then(|carrier| self.sessions.get(&carrier));
        carrier.is_some_and(|carrier| !session.is_flushed() && carrier.unwritten() < CARRIED_AHEAD)
    }

    /// Whether indirect sessions depend on a session.
    pub(super) fn carries(&self, id: SessionId) -> bool {
        self.sessions.values().any(|session| session.is_carried_by(id))
    }

    /// A session has ended on this side: the carrying node notifies the other side, behind the last refusal.
    pub(super) fn end_indirect(&mut self, session: &Session, loss: &Loss) {
        let Some(indirect) = session.indirect.as_ref().filter(|it| it.is_carried()) else { return };
        if matches!(loss, Loss::Carrier(_) | Loss::Unreachable(_) | Loss::NoRoom(_)) {
            return;
        }
        let notice = |part, body| {
            let portion = Portion::empty(indirect.with.clone(), indirect.number, part);
            Notice { carrier: indirect.carrier, portion, body }
        };
        if indirect.writes && matches!(session.phase, Phase::Shaking(_) | Phase::Seating(_)) {
            self.notices.push(notice(Part::Data, session.left().to_vec()));
        }
        self.notices.push(notice(Part::End, Vec::new()));
    }

    /// A direct session with a node has ended: notifies all nodes for which this node may have carried. Returns the
    /// sessions that the node carried.
    pub(super) fn end_carried(&mut self, id: SessionId, name: &NodeName) -> Vec<SessionId> {
        let others: Vec<NodeName> = self.peers.keys().filter(|other| *other != name).cloned().collect();
        for other in others {
            if let Some(session) = self.direct_session(&other) {
                session.put(&Frame::Carried(Portion::empty(name.clone(), 0, Part::Unreachable)));
            }
        }
        self.sessions.iter().filter(|(_, session)| session.is_carried_by(id)).map(|(id, _)| *id).collect()
    }

    /// The number of the indirect session with a node that a direct connection is to continue, or 0.
    pub(super) fn to_continue(&self, node: &NodeName) -> u64 {
        let session = self.peers.get(node).and_then(|peer| self.sessions.get(&peer.session?));
        session.and_then(|session| session.indirect.as_ref()).map_or(0, |indirect| indirect.number)
    }

    /// Both sides have proven that a direct connection belongs to an indirect session: the session continues there.
    pub(super) fn merge(&mut self, direct: &mut Session, who: &PeerInfo, registry: &Registry) -> Result<(), Loss> {
        let peer = self.peers.get_mut(&who.name).filter(|peer| peer.node.incarnation == who.incarnation);
        let peer = peer.ok_or(Loss::NotInView)?;
        peer.probe = None;
        let id = peer.session.ok_or(Loss::NothingToContinue)?;
        let session = self.sessions.get_mut(&id).ok_or(Loss::NothingToContinue)?;
        let (Phase::Open(_), Some(indirect)) = (&session.phase, &session.indirect) else {
            return Err(Loss::NothingToContinue);
        };
        if indirect.number != who.continues || !indirect.writes {
            return Err(Loss::NothingToContinue);
        }
        let (carrier, portion) = (indirect.carrier, indirect.portion(Part::Last, &[]));
        self.notices.push(Notice { carrier, portion, body: Vec::new() });
        session.continue_over(direct);
        session.register(registry, id)?;
        let address = session.address;
        tracing::info!(node = %who.name, %address, "the link to another node of the cluster is direct again");
        Ok(())
    }
}
