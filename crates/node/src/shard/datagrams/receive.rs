//! QUIC input of a shard: datagrams from its sockets and from other shards, events of connections, and timers.

use std::io;
use std::time::Instant;

use mio::Token;
use mio::event::Event as Readiness;
use quinn_proto::{ConnectionEvent, ConnectionHandle, Incoming};
use tidegate_engine::{ConnectionKey, Millis, ShardId};

use super::state::Owner;
use crate::orders::ToShard;
use crate::peer::Peer;
use crate::quic::{
    Arrived, DATAGRAMS_PER_TURN, News, Quic, QuicBatch, QuicId, QuicNotice, UNPROVED_HANDSHAKES_PER_TURN, number_of,
};
use crate::shard::facets::QuicCalls;
use crate::shard::table::Flags;
use crate::transport::Transport;

/// The results of one reception from a socket.
#[derive(Default)]
struct Gathered {
    /// Connections of this shard that got datagrams.
    here: Vec<QuicId>,
    /// Events for other shards, by their number.
    elsewhere: Vec<Vec<(ConnectionHandle, ConnectionEvent)>>,
    /// Handshakes begun for clients whose address is not proved.
    unproved: usize,
}

impl QuicCalls<'_> {
    /// A connection on this shard, and its owner.
    pub(super) fn quic(&mut self, id: QuicId) -> Option<(&mut Quic, Owner)> {
        let owner = *self.shard.quic.owners.get(&id)?;
        let transport = match owner {
            Owner::Client(key) => self.shard.table.get(key)?.1,
            Owner::Relay(key) => self.shard.relays.client_transport(key)?,
        };
        match transport {
            Transport::Quic(quic) => Some((quic, owner)),
            _ => None,
        }
    }

    /// Handles readiness of a UDP socket; returns whether the token is one.
    pub(crate) fn take_quic_readiness(&mut self, token: Token, event: &Readiness) -> bool {
        let Some(number) = number_of(token) else { return false };
        if event.is_readable()
            && let Some(endpoint) = self.shard.quic.endpoint(number)
        {
            endpoint.ready = true;
        }
        if event.is_writable() {
            self.resume_sending(number);
        }
        true
    }

    /// Takes a bounded number of datagrams from each socket that has some.
    pub(crate) fn receive_datagrams(&mut self) {
        if !self.shard.serving {
            return;
        }
        for position in 0..self.shard.quic.endpoints.len() {
            let ready = self.shard.quic.endpoints.get(position).is_some_and(|endpoint| endpoint.ready);
            if ready {
                self.receive_from(position);
            }
        }
    }

    fn receive_from(&mut self, position: usize) {
        let Some(endpoint) = self.shard.quic.endpoints.get_mut(position) else { return };
        endpoint.follow_certificates();
        let mut room = self.shard.quic.receive_room.take().unwrap_or_default();
        let mut arrived = std::mem::take(&mut self.shard.quic.arrived);
        let mut gathered = Gathered::default();
        let mut count = 0;
        while count < DATAGRAMS_PER_TURN && gathered.unproved < UNPROVED_HANDSHAKES_PER_TURN {
            let Some(endpoint) = self.shard.quic.endpoints.get_mut(position) else { break };
            match endpoint.receive(&mut room, &mut arrived) {
                Ok(received) => count += received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    endpoint.ready = false;
                    break;
                }
                // A datagram of ours that could not be delivered is reported here.
                Err(error) => {
                    tracing::debug!(%error, "receiving datagrams failed");
                    count += 1;
                }
            }
            for one in arrived.drain(..) {
                self.take_arrived(position, one, &mut gathered);
            }
        }
        self.shard.counters.quic_datagrams_in += count as u64;
        self.shard.quic.receive_room = Some(room);
        self.shard.quic.arrived = arrived;
        self.pass_on(position, gathered.elsewhere);
        for id in gathered.here {
            self.take_quic_news(id);
        }
    }

    fn take_arrived(&mut self, position: usize, arrived: Arrived, gathered: &mut Gathered) {
        let Some(endpoint) = self.shard.quic.endpoints.get(position) else { return };
        match arrived {
            Arrived::Incoming(incoming) => {
                let before = self.shard.counters.quic_begun;
                let proved = incoming.remote_address_validated();
                self.take_incoming(position, incoming, gathered.unproved >= UNPROVED_HANDSHAKES_PER_TURN);
                gathered.unproved += usize::from(!proved && self.shard.counters.quic_begun > before);
            }
            Arrived::Event(handle, event) => match endpoint.shard_of(handle) {
                Some(shard) if shard == self.shard.place.shard => {
                    let id = QuicId { endpoint: endpoint.shared.number, handle };
                    if let Some((quic, _)) = self.quic(id) {
                        quic.handle_event(event);
                        if !std::mem::replace(&mut quic.touched, true) {
                            self.shard.quic.touched.push(id);
                        }
                        if gathered.here.last() != Some(&id) {
                            gathered.here.push(id);
                        }
                    }
                }
                Some(shard) => {
                    let shards = usize::from(self.shard.place.shards);
                    gathered.elsewhere.resize_with(shards, Vec::new);
                    if let Some(events) = gathered.elsewhere.get_mut(usize::from(shard.0)) {
                        events.push((handle, event));
                    }
                }
                None => {}
            },
        }
    }

    /// Passes events to the shards of their connections.
    fn pass_on(&mut self, position: usize, elsewhere: Vec<Vec<(ConnectionHandle, ConnectionEvent)>>) {
        let Some(endpoint) = self.shard.quic.endpoints.get(position) else { return };
        for ((shard, inbox), events) in (0..).map(ShardId).zip(&self.shard.inboxes).zip(elsewhere) {
            self.shard.counters.quic_passed_on += events.len() as u64;
            let (batch, dropped) = endpoint.shared.batch(shard, events);
            self.shard.counters.quic_dropped += dropped as u64;
            if let Some(batch) = batch {
                inbox.send(ToShard::QuicBatch(Box::new(batch)));
            }
        }
    }

    /// A request for a connection. It is accepted when its address is validated or need not be, and no limit is
    /// reached.
    fn take_incoming(&mut self, position: usize, incoming: Incoming, hurried: bool) {
        let address = incoming.remote_address().ip();
        let full = self.shard.sockets().is_full() && !self.shard.sockets().make_room();
        let Some(endpoint) = self.shard.quic.endpoints.get_mut(position) else { return };
        if !endpoint.accepting {
            endpoint.refuse(incoming);
            return;
        }
        // Who is counted for an address has to be there.
        let counts_addresses = self.shard.shared.admission.counts_addresses();
        if !incoming.remote_address_validated() && (hurried || counts_addresses || endpoint.is_busy()) {
            self.shard.counters.quic_retries += 1;
            endpoint.ask_for_proof(incoming);
            return;
        }
        let Some((_, slot)) = endpoint.tls.begin() else {
            // Not refused: the client retries, and is accepted later.
            self.shard.counters.quic_deferred += 1;
            endpoint.forget(incoming);
            return;
        };
        let listener = endpoint.listener;
        if full {
            endpoint.refuse(incoming);
            self.shard.counters.accepted += 1;
            self.shard.admission().refuse_full(Some(address));
            return;
        }
        match self.shard.shared.admission.admit(self.shard.now, Some(listener), Some(address)) {
            Ok(seat) => match endpoint.accept(incoming, slot, self.shard.place.shard) {
                Ok(quic) => {
                    self.shard.counters.quic_begun += 1;
                    let peer = Peer::Address(quic.peer());
                    self.shard.sockets().take_in(Transport::Quic(Box::new(quic)), listener, seat, peer);
                }
                Err(error) => {
                    self.shard.counters.quic_failed += 1;
                    self.shard.admission().record_failed_handshake(address, &error.to_string());
                    self.shard.admission().free_seat(seat);
                }
            },
            Err(reason) => {
                endpoint.refuse(incoming);
                self.shard.counters.accepted += 1;
                self.shard.admission().refuse_at_accept(Some(address), reason);
            }
        }
    }

    /// Events from another shard's socket.
    pub(crate) fn take_quic_batch(&mut self, batch: QuicBatch) {
        let (endpoint, events) = batch.open();
        let mut here = Vec::new();
        for (handle, event) in events {
            let id = QuicId { endpoint, handle };
            // An event for a connection that has ended meanwhile is dropped.
            let Some((quic, _)) = self.quic(id) else { continue };
            quic.handle_event(event);
            if here.last() != Some(&id) {
                here.push(id);
            }
        }
        for id in here {
            self.touch_quic(id);
            self.take_quic_news(id);
        }
    }

    /// An event of a connection for the shard of its socket.
    pub(crate) fn take_quic_notice(&mut self, notice: QuicNotice) {
        let QuicNotice { endpoint: number, handle, events } = notice;
        for event in events {
            let Some(endpoint) = self.shard.quic.endpoint(number) else { return };
            let to = endpoint.shard_of(handle);
            let Some(answer) = endpoint.take_notice(handle, event) else { continue };
            let id = QuicId { endpoint: number, handle };
            match to {
                Some(shard) if shard == self.shard.place.shard => {
                    if let Some((quic, _)) = self.quic(id) {
                        quic.handle_event(answer);
                        self.touch_quic(id);
                    }
                }
                Some(shard) => {
                    if let Some(inbox) = self.shard.inboxes.get(usize::from(shard.0))
                        && let Some(batch) = endpoint.shared.answer(shard, (handle, answer))
                    {
                        inbox.send(ToShard::QuicBatch(Box::new(batch)));
                    }
                }
                None => {}
            }
        }
    }

    /// Works off the timers that are due.
    pub(crate) fn run_quic_timers(&mut self) {
        let now = Instant::now();
        while let Some(id) = self.shard.quic.pop_due(self.shard.now.monotonic) {
            let Some((quic, _)) = self.quic(id) else { continue };
            quic.due = Millis::NEVER;
            quic.connection.handle_timeout(now);
            self.touch_quic(id);
            self.take_quic_news(id);
        }
    }

    /// Handles the events of a connection.
    fn take_quic_news(&mut self, id: QuicId) {
        let Some((quic, owner)) = self.quic(id) else { return };
        let news = quic.news();
        self.shard.counters.quic_moved += u64::from(news.moved_from.is_some());
        match owner {
            Owner::Client(key) => {
                let stays = self.follow_client(key, news);
                if stays {
                    self.serve_quic(key, news);
                }
            }
            Owner::Relay(key) => self.shard.relaying().take_relay_news(key, news),
        }
    }

    /// A client that has moved to another address is counted there. Returns whether it may stay.
    fn follow_client(&mut self, key: ConnectionKey, news: News) -> bool {
        let Some(before) = news.moved_from else { return true };
        let Some((_, transport)) = self.shard.table.get(key) else { return false };
        let peer = transport.peer();
        tracing::debug!(%before, now = %peer, "a client has moved");
        let same = matches!(peer, Peer::Address(now) if now.ip() == before.ip());
        same || self.shard.admission().admit_introduced(key)
    }

    fn serve_quic(&mut self, key: ConnectionKey, news: News) {
        if news.writable {
            self.shard.sockets().unblock(key);
        }
        let Some(flags) = self.shard.table.flags(key) else { return };
        if news.ended && flags.has(Flags::CLOSING) {
            // Pending output can no longer be sent.
            self.shard.sockets().lose(key);
        } else if news.readable || news.ended {
            self.shard.become_readable(key);
        }
    }
}
