//! Changes of membership: views, begin and end of sessions, and the resulting rosters of shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_engine::ShardId;

use super::handshake::PeerInfo;
use super::links::Links;
use super::loss::Loss;
use super::outbox::Outbox;
use super::peer::Peer;
use super::seating::roster;
use super::session::{Farewell, Open, Phase, Session, after};
use super::settings::Carried;
use super::slots::{NoSlots, SessionId};
use super::status::{ClusterStatus, LinkState};
use super::to_shards::{FromLinks, PeerNews, PeerSeat, RosterOrder};
use super::{ClusterView, NodeName};
use crate::flight::FlightKind;

/// Wall clocks that differ by more than this are worth a line in the log, milliseconds.
const SKEW_MS: u64 = 5_000;

impl Links {
    /// Puts a view in force, but for the homes, which go out with the next rosters.
    pub(super) fn set_view(&mut self, view: Arc<ClusterView>) {
        self.view = view;
        let view = Arc::clone(&self.view);
        let wanted: BTreeMap<&NodeName, _> =
            view.peers.iter().filter(|peer| peer.name != self.local.name).map(|peer| (&peer.name, peer)).collect();
        let gone: Vec<NodeName> = self
            .table
            .peers
            .values()
            .filter(|peer| wanted.get(&peer.node.name).is_none_or(|node| node.incarnation != peer.node.incarnation))
            .map(|peer| peer.node.name.clone())
            .collect();
        for name in gone {
            self.end_session_with(&name, &Loss::NotInView);
            if let Some(peer) = self.table.peers.remove(&name) {
                self.table.past.add(&peer.counters);
            }
        }
        for (name, node) in wanted {
            let unix = self.now.unix;
            let peer = self.table.peers.entry(name.clone()).or_insert_with(|| Peer::new(node.clone(), unix));
            if peer.node.address != node.address {
                // Whatever failed there may not fail here.
                peer.node.address = node.address;
                peer.retry_at = self.now.monotonic;
            }
        }
    }

    /// Ends the session with a node, if there is one, and attempts at one.
    fn end_session_with(&mut self, name: &NodeName, loss: &Loss) {
        let Some(peer) = self.table.peers.get(name) else { return };
        for id in [peer.session, peer.probe].into_iter().flatten() {
            self.lose_session(id, loss);
        }
    }

    /// Ends a session that is not being worked.
    pub(super) fn lose_session(&mut self, id: SessionId, loss: &Loss) {
        if let Some(session) = self.table.sessions.remove(&id) {
            self.lose(id, session, loss);
        }
    }

    /// A node has proven its identity: its earlier session is over.
    pub(super) fn meet(&mut self, id: SessionId, who: &PeerInfo) -> Result<(), Loss> {
        // The view may have changed since its hello.
        let known = self.table.peers.get(&who.name).filter(|peer| peer.node.incarnation == who.incarnation);
        let earlier = known.ok_or(Loss::NotInView)?.session;
        if earlier != Some(id) {
            self.end_session_with(&who.name, &Loss::Replaced);
        }
        if let Some(peer) = self.table.peers.get_mut(&who.name) {
            peer.session = Some(id);
            // If it was the probe, it is the session now.
            peer.probe = None;
        }
        Ok(())
    }

    /// Gives the shards of a node numbers and lets it in, or waits until there are some.
    pub(super) fn take_seats(&mut self, id: SessionId, session: &mut Session) -> Result<(), Loss> {
        let Phase::Seating(who) = &session.phase else { return Ok(()) };
        let seats = match self.slots.take(id, who.shards, self.rosters.received()) {
            Ok(seats) => seats,
            Err(NoSlots::Yet) => return Ok(()),
            Err(NoSlots::Left) => return Err(Loss::Numbers(who.shards)),
        };
        let outbox = Outbox::new(self.limits.outbox_bytes);
        // Of the handshake.
        outbox.note_added(session.unwritten());
        let open = Open {
            who: who.clone(),
            seats,
            outbox: Arc::new(outbox),
            shift: who.shift,
            roster: self.rosters.last() + 1,
            heard: self.now.monotonic,
            next_ping: self.now.monotonic,
            progress: self.now.monotonic,
            rtt_us: None,
            knows: false,
            is_known: false,
            answering: 0,
            answering_bytes: 0,
            farewell: Farewell::No,
        };
        let (who, unix) = (who.clone(), self.now.unix);
        session.phase = Phase::Open(Box::new(open));
        session.counters.sessions += 1;
        let through = session.indirect.as_ref().map(|indirect| indirect.through.clone());
        session.counters.indirect += u64::from(through.is_some());
        if let Some(peer) = self.table.peers.get_mut(&who.name) {
            peer.note_success();
            peer.set_state(LinkState::Linked, unix);
        }
        // A node with a clock ahead may have made versions of values that stay when it has gone.
        self.clock_lead_ms = self.clock_lead_ms.max(u64::try_from(who.skew).unwrap_or(0));
        self.push_rosters_with(Some(session));
        let (node, incarnation, shards, address) = (&who.name, who.incarnation, who.shards, session.address);
        let way = through.as_ref().map(|through| format!(", through node {through}")).unwrap_or_default();
        if let Some(through) = through {
            tracing::warn!(%node, incarnation, shards, %through, "linked with another node of the cluster through a third node: no direct connection");
        } else {
            tracing::info!(%node, incarnation, shards, %address, "linked with another node of the cluster");
        }
        if who.skew.unsigned_abs() > SKEW_MS {
            let skew_ms = who.skew;
            tracing::warn!(%node, skew_ms, "the clocks of the nodes differ: expiry times may be early or late");
        }
        self.questions.note_linked(&who.name);
        self.tell(FlightKind::NodeLinked, session, &format!("node {node}, incarnation {incarnation}{way}"));
        Ok(())
    }

    /// Gives all shards a new roster; returns its number.
    pub(super) fn push_rosters(&mut self) -> u64 {
        self.push_rosters_with(None)
    }

    /// The same with a session that is not in the table at the moment.
    fn push_rosters_with(&mut self, worked: Option<&Session>) -> u64 {
        let mut seats = BTreeMap::new();
        let mut of_all = Vec::new();
        for session in self.table.sessions.values().chain(worked) {
            let Phase::Open(open) = &session.phase else { continue };
            seats.insert(open.who.name.clone(), open.seats.clone());
            of_all.extend((0..).zip(&open.seats).map(|(number, slot)| PeerSeat {
                slot: *slot,
                number,
                outbox: Arc::clone(&open.outbox),
            }));
        }
        let of_all: Arc<[PeerSeat]> = of_all.into();
        let number = self.rosters.next();
        let lead_ms = self.clock_lead_ms;
        for (shard, inbox) in (0..).map(ShardId).zip(&self.shards) {
            let place = self.place(shard);
            let roster = match &self.carried {
                Carried::All => roster(place, &self.view, &self.local.name, &seats),
                Carried::Below(prefix) => roster(place, &self.view, &self.local.name, &seats).with_topics_below(prefix),
                Carried::Values => roster(place, &self.view, &self.local.name, &seats).with_values_only(),
            };
            let roster = roster.with_clock_lead(lead_ms);
            let order = RosterOrder { roster, seats: Arc::clone(&of_all), number };
            inbox.send(FromLinks::Roster(Box::new(order)));
        }
        number
    }

    /// A session is over, or an attempt at one has failed.
    pub(super) fn lose(&mut self, id: SessionId, mut session: Session, loss: &Loss) {
        session.deregister(self.poll.registry());
        if matches!(loss, Loss::Merged) {
            return;
        }
        if matches!(session.phase, Phase::Shaking(_) | Phase::Seating(_) | Phase::Merging(_)) {
            session.say_no(loss, self.now.monotonic);
        }
        self.table.end_indirect(&session, loss);
        if let (Loss::NoRoom(through), Some(indirect)) = (loss, &session.indirect) {
            let (now, until) = (self.now.monotonic, after(self.now.monotonic, self.limits.retry_longest));
            self.table.note_no_room(&indirect.with, through, now, until);
        }
        match &session.phase {
            Phase::Open(open) => {
                open.outbox.close();
                let name = open.who.name.clone();
                let loss = if open.farewell == Farewell::Said { &Loss::Left } else { loss };
                self.end_open(id, session, &name, loss);
            }
            Phase::Connecting(node) => {
                let name = node.name.clone();
                self.fail(id, session, &name, loss);
            }
            Phase::Seating(who) | Phase::Merging(who) => {
                let name = who.name.clone();
                self.fail(id, session, &name, loss);
            }
            Phase::Shaking(shaking) => {
                let name = shaking.dialed().map(|node| node.name.clone());
                if let Some(name) = name {
                    self.fail(id, session, &name, loss);
                    return;
                }
                self.table.past.add(&session.counters);
                if loss.may_pass() {
                    self.refused += 1;
                    tracing::debug!(address = %session.address, "a node is refused for now: {loss}");
                } else {
                    self.refuse(&format!("{}: {loss}", session.address));
                }
            }
        }
    }

    fn end_open(&mut self, id: SessionId, mut session: Session, name: &NodeName, loss: &Loss) {
        self.questions.end_session(id);
        if !loss.is_orderly() {
            session.counters.resets += 1;
        }
        self.table.count(&mut session);
        let unix = self.now.unix;
        if let Some(peer) = self.table.peers.get_mut(name).filter(|peer| peer.session == Some(id)) {
            // A begun direct connection becomes the attempt at the next session.
            peer.session = peer.probe.take();
            peer.goes_around = session.is_direct() && matches!(loss, Loss::Silent(_) | Loss::Stalled(_));
            peer.set_state(LinkState::Dialing, unix);
            peer.back_off(self.now.monotonic, &self.limits);
            peer.note_failure(self.now.monotonic, loss.to_string());
        }
        // The numbers are free from the roster on that no longer has them.
        let number = self.push_rosters();
        self.slots.free(id, number);
        let address = session.address;
        if loss.is_orderly() {
            tracing::info!(node = %name, %address, "the link to another node of the cluster has ended: {loss}");
        } else {
            tracing::warn!(node = %name, %address, "the link to another node of the cluster is lost: {loss}");
        }
        self.tell(FlightKind::NodeLost, &session, &format!("node {name}: {loss}"));
        if session.is_direct() {
            for id in self.table.end_carried(id, name) {
                self.lose_session(id, &Loss::Carrier(name.clone()));
            }
        }
    }

    /// An attempt has failed.
    fn fail(&mut self, id: SessionId, mut session: Session, name: &NodeName, loss: &Loss) {
        self.table.count(&mut session);
        if let Some(peer) = self.table.peers.get_mut(name).filter(|peer| peer.probe == Some(id)) {
            // The indirect session is not affected.
            peer.probe = None;
            peer.counters.failures += 1;
            tracing::debug!(node = %name, "no direct connection yet: {loss}");
            return;
        }
        self.table.note_failure(name, loss, self.now.monotonic);
        if let Some(peer) = self.table.peers.get_mut(name).filter(|peer| peer.session == Some(id)) {
            peer.session = None;
            peer.goes_around = session.is_direct() && loss.is_of_the_way();
        }
    }

    /// Records an event on the first shard.
    pub(super) fn tell(&self, kind: FlightKind, session: &Session, detail: &str) {
        if let Some(inbox) = self.shards.first() {
            let news = PeerNews { kind, address: session.address.ip(), detail: detail.to_owned() };
            inbox.send(FromLinks::News(Box::new(news)));
        }
    }

    /// How the links are.
    pub(super) fn status(&mut self) -> ClusterStatus {
        self.with_sessions(|links, _, session| {
            links.table.count(session);
            Ok(())
        });
        let mut total = self.table.past;
        let mut peers = Vec::new();
        for peer in self.table.peers.values() {
            total.add(&peer.counters);
            let mut status = peer.status();
            let session = peer.session.and_then(|id| self.table.sessions.get(&id));
            if let Some((session, Phase::Open(open))) = session.map(|session| (session, &session.phase)) {
                let indirect = session.indirect.as_ref().filter(|it| it.is_carried());
                status.through = indirect.map(|it| it.through.clone());
                status.rtt_us = open.rtt_us;
                status.shards = Some(open.who.shards);
                status.waiting_bytes = open.outbox.waiting();
            }
            peers.push(status);
        }
        ClusterStatus {
            name: Some(self.local.name.clone()),
            incarnation: self.local.incarnation,
            epoch: self.view.epoch,
            peers,
            total,
            refused: self.refused,
        }
    }
}
