//! Connections of a shard: how they come in, are handed over, read and written.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering;

use tidegate_engine::{ConnectionKey, ListenerId, Reason, ShardId};

use crate::admission::Seat;
use crate::broker_link::NO_LISTENER;
use crate::limits::HANDSHAKE_STEP_BYTES;
use crate::orders::{Adoption, ToShard};
use crate::peer::Peer;
use crate::shard::Shard;
use crate::shard::datagrams::Owner;
use crate::shard::facets::SocketCalls;
use crate::shard::gate::ip_of;
use crate::shard::table::{Flags, token_of};
use crate::tls::ConnectionFacts;
use crate::transport::{Ended, Input, Transport, Wrote};
use crate::websocket;

impl SocketCalls<'_> {
    /// Takes a new connection in. It is read before it is registered: often its CONNECT has arrived already, and then a
    /// client whose home is elsewhere was never registered here.
    pub(crate) fn take_in(&mut self, transport: Transport, listener: ListenerId, seat: Seat, peer: Peer) {
        self.shard.counters.accepted += 1;
        let before = self.shard.shared.connections.fetch_add(1, Ordering::Relaxed);
        let is_limited = seat != Seat::OWN;
        if is_limited && before >= self.shard.shared.max_connections && !self.make_room() {
            self.shard.shared.connections.fetch_sub(1, Ordering::Relaxed);
            self.shard.admission().free_seat(seat);
            self.shard.admission().refuse_full(ip_of(peer));
            return;
        }
        let has_facts = transport.has_facts_inside();
        if let Some(key) = self.open(transport, listener, seat, peer) {
            if has_facts {
                self.shard.accepting().preset(key);
            }
            if is_limited {
                self.note_stranger(key, listener);
            }
            if self.shard.read_budget > 0 {
                self.read_connection(key);
                // A client that is handed over now gives its key free, and the next connection may get it.
                self.shard.take_events();
            }
            self.register(key);
        }
    }

    /// Whether the limit of connections is reached.
    #[cfg(feature = "quic")]
    pub(crate) fn is_full(&self) -> bool {
        self.shard.shared.connections.load(Ordering::Relaxed) >= self.shard.shared.max_connections
    }

    /// Notes a connection that has not sent a CONNECT.
    fn note_stranger(&mut self, key: ConnectionKey, listener: ListenerId) {
        let questions = self.shard.engine.questions();
        self.shard.strangers.note(key, listener, |oldest| questions.is_unheard(oldest));
    }

    /// Closes the connection of this shard that has been silent for longest since it was accepted, so that another one
    /// fits. Returns whether there was one. None is closed while the engine refuses the other one in any case.
    pub(crate) fn make_room(&mut self) -> bool {
        self.close_stranger(None)
    }

    /// The same, among all connections or the connections of one listener.
    fn close_stranger(&mut self, listener: Option<ListenerId>) -> bool {
        if self.shard.engine.questions().refuses_connections() {
            return false;
        }
        while let Some(key) = self.shard.strangers.take_oldest(listener) {
            if !self.shard.engine.control().close_unheard(key, Reason::TooManyConnections) {
                continue;
            }
            let address = self.shard.admission().address_of(key);
            match listener {
                Some(_) => self.shard.admission().refuse_for_engine(address, Reason::TooManyConnections),
                None => self.shard.admission().refuse_full(address),
            }
            // Its file is needed now, so it is not drained.
            if let Some(flags) = self.shard.table.flags(key) {
                flags.set(Flags::BROKEN);
            }
            self.shard.take_events();
            self.finish_close(key);
            return true;
        }
        false
    }

    /// Takes in a connection whose client has its home here.
    pub(crate) fn adopt(&mut self, adoption: Adoption) {
        self.shard.counters.adopted += 1;
        if let Some(continued) = adoption.continued {
            let Adoption { transport, listener, seat, peer, .. } = adoption;
            return self.adopt_continued((transport, listener, seat, peer), continued);
        }
        let (waiting, ended) = (adoption.transport.is_waiting(), adoption.transport.has_ended());
        let has_facts = adoption.transport.is_secure() || adoption.transport.relayed_tenant().is_some();
        let Some(key) = self.open(adoption.transport, adoption.listener, adoption.seat, adoption.peer) else { return };
        if has_facts {
            self.shard.accepting().preset(key);
        }
        let (accepted, pass) = adoption.admitted.map(|admitted| (admitted.accepted, admitted.pass)).unzip();
        self.shard.admitting = accepted;
        self.shard.engine.handle_input(self.shard.now, key, &adoption.bytes);
        if let Some(pass) = pass {
            // Its CONNECT is being processed or refused: the pending authentication belongs to it.
            self.shard.take_events();
            self.shard.admitting = None;
            // From here on its session keeps the node of its user.
            drop(pass);
        }
        self.register(key);
        if ended {
            // The client closed the WebSocket right after its CONNECT, and no later event would report that.
            if let Some(flags) = self.shard.table.flags(key) {
                flags.set(Flags::WILL_LINGER);
            }
            self.shard.engine.handle_transport_closed(self.shard.now, key);
        }
        if waiting {
            self.shard.dirty.push(key);
        }
    }

    /// Asks the engine for a key and takes the transport in under it, or closes it.
    pub(crate) fn open(
        &mut self,
        mut transport: Transport,
        listener: ListenerId,
        seat: Seat,
        peer: Peer,
    ) -> Option<ConnectionKey> {
        // The key of a connection that was handed over is free as soon as the event exists.
        self.shard.take_events();
        if seat != Seat::OWN && self.shard.engine.questions().is_listener_full(listener) {
            self.close_stranger(Some(listener));
        }
        let (engine, now) = (&mut self.shard.engine, self.shard.now);
        let opened = match seat {
            Seat::OWN => engine.entry().open_own_connection(now, listener),
            _ => engine.open_connection(now, listener),
        };
        let key = match opened {
            Ok(key) => key,
            Err(reason) => {
                self.shard.admission().refuse_for_engine(ip_of(peer), reason);
                self.shard.admission().free_seat(seat);
                self.shard.shared.connections.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
        };
        let quic = transport.quic().map(|quic| quic.id());
        self.shard.table.insert(key, transport, listener, seat, peer);
        if let Some(id) = quic {
            self.shard.datagrams().own_quic(id, Owner::Client(key));
        }
        Some(key)
    }

    /// Registers a socket with the poller, which reports at once all input since the last read.
    pub(crate) fn register(&mut self, key: ConnectionKey) {
        let Some((flags, transport)) = self.shard.table.get(key) else { return };
        if flags.has(Flags::BROKEN) {
            return;
        }
        match transport.register(self.shard.poll.registry(), token_of(key)) {
            Ok(()) => flags.set(Flags::REGISTERED),
            Err(error) => {
                tracing::error!(%error, "cannot register a socket");
                self.lose(key);
            }
        }
    }

    /// Sends a connection to the home of its client, with all that was received.
    pub(crate) fn hand_over(&mut self, key: ConnectionKey, home: ShardId, listener: ListenerId, bytes: Vec<u8>) {
        let peer = self.shard.table.peer(key).unwrap_or(Peer::Gone);
        let Some((flags, mut transport, seat)) = self.shard.table.remove(key) else { return };
        let deregistered =
            if flags.has(Flags::REGISTERED) { transport.deregister(self.shard.poll.registry()) } else { Ok(()) };
        if let Some(quic) = transport.quic() {
            self.shard.datagrams().redirect_quic(quic, home);
        }
        let inbox = self.shard.inboxes.get(usize::from(home.0));
        if let (Ok(()), Some(inbox)) = (deregistered, inbox) {
            self.shard.counters.handed_over += 1;
            inbox.send(ToShard::Adopt(Box::new(Adoption {
                transport,
                listener,
                seat,
                peer,
                bytes,
                admitted: None,
                continued: None,
            })));
        } else {
            self.shard.admission().free_seat(seat);
            self.shard.shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Reads a socket once.
    pub(crate) fn read_connection(&mut self, key: ConnectionKey) {
        let Some((mut flags, mut transport)) = self.shard.table.get(key) else { return };
        if flags.has(Flags::CLOSING) && !flags.has(Flags::LINGERING) {
            // Its input is ignored, but its last output is not written yet; it is drained after that.
            flags.set(Flags::READABLE);
            return;
        }
        flags.clear(Flags::READABLE);
        self.shard.counters.reads += 1;
        let handshaking = transport.is_handshaking();
        let mut input = transport.read(&mut self.shard.buffer);
        if flags.has(Flags::BLOCKED) && transport.has_room() {
            flags.clear(Flags::BLOCKED);
            self.shard.engine.outputs().stand_in_line(key);
        }
        if matches!(input, Ok(Input::Introduced)) {
            if !self.shard.admission().admit_introduced(key) {
                return;
            }
            if let Some(home) = self.home_to_carry_to(key) {
                return self.shard.relaying().begin_to_carry(key, home);
            }
            self.shard.accepting().preset(key);
            let Some(same) = self.shard.table.get(key) else { return };
            (flags, transport) = same;
            input = transport.read(&mut self.shard.buffer);
        }
        if let Some(id) = transport.quic().map(|quic| quic.id()) {
            // The read may allow the client to send more.
            self.shard.datagrams().touch_quic(id);
            let Some(same) = self.shard.table.get(key) else { return };
            (flags, transport) = same;
        }
        if handshaking {
            self.note_handshake(key);
            let Some(same) = self.shard.table.get(key) else { return };
            (flags, transport) = same;
        }
        match input {
            Ok(Input::Bytes { payload, full }) => {
                if full || flags.has(Flags::PEER_CLOSED) {
                    flags.set(Flags::READABLE);
                    self.shard.ring.push_back(key);
                }
                let ignored = flags.has(Flags::LINGERING);
                // A pong or the answer to a handshake is no output of the engine, which so does not name the
                // connection.
                if transport.is_waiting() {
                    self.shard.dirty.push(key);
                }
                self.shard.read_budget = self.shard.read_budget.saturating_sub(payload.len());
                if !ignored {
                    self.feed(key, payload);
                }
            }
            Ok(Input::Last { payload, ended }) => {
                if !flags.has(Flags::LINGERING) {
                    self.feed(key, payload);
                }
                self.end_transport(key, &ended);
            }
            // A header that stays incomplete is left in the socket, in front of the end that a read would find.
            Ok(Input::Blocked | Input::Introduced) if flags.has(Flags::PEER_CLOSED) => self.end_input(key),
            Ok(Input::Blocked | Input::Introduced) => {}
            Ok(Input::Closed) => self.end_input(key),
            Err(_) => self.lose(key),
        }
    }

    /// A step of a TLS handshake is done, perhaps the last one.
    fn note_handshake(&mut self, key: ConnectionKey) {
        self.shard.read_budget = self.shard.read_budget.saturating_sub(HANDSHAKE_STEP_BYTES);
        let ended = self.shard.table.get(key).filter(|(_, transport)| !transport.is_handshaking());
        if let Some((_, transport)) = ended {
            self.shard.counters.tls_handshakes += 1;
            self.shard.counters.tls_resumed += u64::from(transport.is_resumed());
            self.shard.accepting().preset(key);
        }
    }

    /// The home of a client that another node has sent here. A connection that is being closed begins nothing.
    fn home_to_carry_to(&mut self, key: ConnectionKey) -> Option<SocketAddr> {
        let open = self.shard.table.get(key).filter(|(flags, _)| !flags.has(Flags::CLOSING));
        open.and_then(|(_, transport)| transport.carry_to())
    }

    /// All input has come. That of a client whose node was asked to end its side is not the end of the client.
    fn end_input(&mut self, key: ConnectionKey) {
        match self.shard.table.flags(key) {
            Some(flags) if flags.has(Flags::ASKED) && !flags.has(Flags::CLOSING) => flags.set(Flags::READ_TO_END),
            _ => self.lose(key),
        }
    }

    /// Hands bytes of the buffer to the engine.
    fn feed(&mut self, key: ConnectionKey, payload: Range<usize>) {
        if let Some(bytes) = self.shard.buffer.get(payload).filter(|bytes| !bytes.is_empty()) {
            self.shard.engine.handle_input(self.shard.now, key, bytes);
            if self.shard.engine.batches_due() {
                // The other shards can begin while this one still reads.
                self.shard.send_batches();
            }
        }
    }

    /// The transport has ended.
    fn end_transport(&mut self, key: ConnectionKey, ended: &Ended) {
        let fault = *ended != Ended::WebSocket(websocket::Ended::Closed);
        match ended {
            Ended::WebSocket(websocket::Ended::Closed) => {}
            Ended::WebSocket(websocket::Ended::Refused(_)) => self.shard.counters.websocket_refused += 1,
            Ended::WebSocket(websocket::Ended::Violation(_)) => self.shard.counters.websocket_violations += 1,
            Ended::Tls(_) => self.shard.counters.tls_failed += 1,
            Ended::Proxy(_) => self.shard.counters.proxy_refused += 1,
            Ended::Quic(_) => self.shard.counters.quic_failed += 1,
        }
        let peer = self.shard.table.peer(key).unwrap_or(Peer::Gone);
        if fault && let Some((flags, _)) = self.shard.table.get(key) {
            // A failed QUIC connection can send no more output.
            flags.set(if matches!(ended, Ended::Quic(_)) { Flags::BROKEN } else { Flags::WILL_LINGER });
            if matches!(ended, Ended::Tls(_) | Ended::Proxy(_) | Ended::Quic(_))
                && let Some(times) = self.shard.unfit.note(self.shard.now.monotonic)
            {
                tracing::warn!(%peer, times, "connection closed: {ended}");
            } else {
                tracing::debug!(%peer, "connection closed: {ended}");
            }
        }
        if self.shard.table.listener(key) == NO_LISTENER {
            self.shard.engine.fleet().fail_broker_link_transport(self.shard.now, key, &ended.to_string());
            return;
        }
        let reason = match ended {
            Ended::WebSocket(websocket::Ended::Closed) => {
                return self.shard.engine.handle_transport_closed(self.shard.now, key);
            }
            Ended::WebSocket(_) | Ended::Quic(_) => Reason::HandshakeFailed,
            Ended::Tls(_) => Reason::TlsFailed,
            Ended::Proxy(_) => Reason::ProxyHeader,
        };
        self.shard.engine.handle_transport_failed(self.shard.now, key, reason, &ended.to_string());
    }

    /// The facts about a connection beside its packets.
    pub(crate) fn facts(&mut self, key: ConnectionKey) -> ConnectionFacts {
        let listener = usize::from(self.shard.table.listener(key).0);
        let tls = self.shard.shared.tls.get(listener).map(|listener| listener.settings());
        let peer = match self.shard.table.peer(key) {
            Some(Peer::Address(address)) => Some(address),
            _ => None,
        };
        let known = self.shard.table.get(key).map(|(_, transport)| transport.facts(tls.as_deref()));
        ConnectionFacts { peer, ..known.unwrap_or_default() }
    }

    /// The socket is useless.
    pub(crate) fn lose(&mut self, key: ConnectionKey) {
        let Some((flags, _)) = self.shard.table.get(key) else { return };
        flags.set(Flags::BROKEN);
        if flags.has(Flags::CLOSING) {
            self.finish_close(key);
        } else {
            self.shard.engine.handle_transport_closed(self.shard.now, key);
        }
    }

    /// A socket that refused output takes some again.
    pub(crate) fn unblock(&mut self, key: ConnectionKey) {
        let Some((flags, transport)) = self.shard.table.get(key) else { return };
        if !flags.has(Flags::BLOCKED) {
            return;
        }
        flags.clear(Flags::BLOCKED);
        let _ = transport.set_blocked(self.shard.poll.registry(), token_of(key), false);
        self.shard.engine.outputs().stand_in_line(key);
    }

    /// Writes the output of a connection once. Returns whether there is more that its socket would take, for a later turn.
    #[must_use]
    pub(crate) fn write_connection(&mut self, key: ConnectionKey) -> bool {
        let Some((flags, transport)) = self.shard.table.get(key) else { return false };
        if flags.has(Flags::BLOCKED | Flags::BROKEN | Flags::LINGERING) {
            return false;
        }
        self.shard.counters.writes += 1;
        let mut more = false;
        match transport.write(self.shard.engine.output(key), &mut self.shard.buffer) {
            Ok(Wrote::All) => {}
            Ok(Wrote::Some) => more = true,
            Ok(Wrote::Blocked) => {
                self.shard.counters.writes_blocked += 1;
                flags.set(Flags::BLOCKED);
                if transport.set_blocked(self.shard.poll.registry(), token_of(key), true).is_err() {
                    flags.set(Flags::BROKEN);
                }
            }
            Err(_) => flags.set(Flags::BROKEN),
        }
        let quic = transport.quic().map(|quic| quic.id());
        let (closing, broken) = (flags.has(Flags::CLOSING), flags.has(Flags::BROKEN));
        if let Some(id) = quic {
            self.shard.datagrams().touch_quic(id);
        }
        self.shard.engine.outputs().handle_written(self.shard.now, key);
        if closing {
            self.finish_close(key);
        } else if broken {
            self.shard.engine.handle_transport_closed(self.shard.now, key);
        }
        more
    }
}

impl Shard {
    /// Reads a socket that has become readable, or remembers it when it cannot be read now.
    pub(crate) fn become_readable(&mut self, key: ConnectionKey) {
        let Some((flags, transport)) = self.table.get(key) else { return };
        if flags.has(Flags::BLOCKED) && transport.has_room() {
            // It may be a connection that is not read until its output has left.
            self.sockets().unblock(key);
        }
        let Some(flags) = self.table.flags(key) else { return };
        if flags.has(Flags::READABLE) {
            return;
        }
        if self.read_budget > 0 && !flags.has(Flags::PAUSED | Flags::HELD) {
            self.sockets().read_connection(key);
        } else {
            flags.set(Flags::READABLE);
            self.ring.push_back(key);
        }
    }
}
