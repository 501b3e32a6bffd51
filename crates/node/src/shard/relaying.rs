//! Clients whose home is another orchestrator are relayed: relays begin, move bytes, and end.

use std::sync::Arc;

use mio::event::Event as Readiness;
use mio::net::TcpStream;
use mio::{Interest, Token};
use tidegate_engine::{ConnectionKey, Homes, Output};

#[cfg(feature = "quic")]
use crate::quic::News;
use crate::relay::end::End;
use crate::relay::follower::Follower;
use crate::relay::goodbye::Goodbye;
use crate::relay::pair::{MoveStage, Pumped};
use crate::relay::sieve::Sieve;
use crate::relay::slots::Stage;
use crate::relay::{CLIENT, ClientOrigin, Detours, HOME, NodeHomes, Pair, Relay, RelayKey, Way, header};
use crate::shard::datagrams::Owner;
use crate::shard::facets::RelayCalls;
use crate::shard::table::Flags;
use crate::transport::Transport;

impl RelayCalls<'_> {
    /// Puts a table of homes in force.
    pub(crate) fn set_homes(&mut self, homes: Option<&NodeHomes>) {
        self.shard.ways.homes = homes.map(|homes| homes.relays.clone()).unwrap_or_default();
        let now = self.shard.now;
        self.shard.engine.homes().set_homes(now, homes.map(|homes| Homes::clone(&homes.table)));
        self.shard.relays.retry_now(now.monotonic);
    }

    /// The engine wants a client to be relayed to a place.
    pub(crate) fn begin_relay(&mut self, client: ConnectionKey, place: u16) {
        match self.shard.ways.to_place(place) {
            Some(way) => self.connect_relay(client, way),
            None => self.fail_relay(client, "its address for relayed clients is unknown, or its name has no address"),
        }
    }

    /// Changes the ways around cut connections.
    pub(crate) fn set_detours(&mut self, detours: Arc<Detours>) {
        self.shard.ways.detours = detours;
        self.shard.relays.retry_now(self.shard.now.monotonic);
    }

    fn connect_relay(&mut self, client: ConnectionKey, way: Way) {
        let home = match TcpStream::connect(way.first()) {
            Ok(home) => home,
            Err(error) => {
                self.fail_relay(client, &format!("{way}: {error}"));
                return;
            }
        };
        let key = self.shard.relays.insert(Relay::Connecting { client, home, way });
        let token = key.token(HOME);
        let registered = match self.shard.relays.get(key) {
            Some(Relay::Connecting { home, .. }) => {
                self.shard.poll.registry().register(home, token, Interest::READABLE | Interest::WRITABLE)
            }
            _ => Ok(()),
        };
        if let Err(error) = registered {
            self.shard.relays.remove(key);
            self.fail_relay(client, &error.to_string());
            return;
        }
        self.shard.relays.set_deadline(self.shard.now.monotonic, key, Stage::Connecting);
    }

    /// A way to the home of a client has failed. If another one has become known meanwhile, it is taken.
    fn fail_way(&mut self, client: ConnectionKey, way: Way, why: &str) {
        let now = self.shard.ways.to(way.home);
        if now == way {
            self.fail_relay(client, &format!("{way}: {why}"));
        } else {
            self.connect_relay(client, now);
        }
    }

    /// Informs a client that its home is unreachable. The log is rate-limited.
    fn fail_relay(&mut self, client: ConnectionKey, why: &str) {
        self.shard.counters.relays_failed += 1;
        if let Some(times) = self.shard.relays.unreachable.note(self.shard.now.monotonic) {
            tracing::warn!(times, "cannot reach the node that holds a client's session: {why}");
        }
        self.shard.engine.homes().fail_relay(self.shard.now, client, "cannot reach the node that holds the session");
    }

    /// Handles readiness of one end of a relay; returns true if the token belongs to a relay.
    pub(crate) fn take_relay_readiness(&mut self, token: Token, event: &Readiness) -> bool {
        let Some((key, side)) = self.shard.relays.key_of(token) else { return RelayKey::is_relay(token) };
        match self.shard.relays.get(key) {
            Some(Relay::Connecting { .. }) => self.finish_connecting(key),
            Some(Relay::Moving(_)) => self.take_moving_readiness(key, side, event),
            Some(Relay::Farewell(last)) => {
                last.client.note(event);
                self.end_farewell(key);
            }
            Some(Relay::Open(pair)) => {
                let is_refused = side == HOME && pair.awaits_connection() && event.is_error();
                let end = &mut pair.ends[usize::from(side != CLIENT)];
                end.note(event);
                if is_refused {
                    self.give_up_carrying(key);
                } else {
                    self.pump_relay(key);
                }
            }
            None => {}
        }
        true
    }

    /// Handles the events of the QUIC connection of a relayed client.
    #[cfg(feature = "quic")]
    pub(crate) fn take_relay_news(&mut self, key: RelayKey, news: News) {
        match self.shard.relays.get(key) {
            Some(Relay::Open(pair)) => {
                pair.ends[CLIENT].note_news(news);
                self.pump_relay(key);
            }
            Some(Relay::Moving(departed)) => departed.client.note_news(news),
            Some(Relay::Farewell(last)) => {
                last.client.note_news(news);
                self.end_farewell(key);
            }
            Some(Relay::Connecting { .. }) | None => {}
        }
    }

    /// The connection to the home was established or has failed.
    fn finish_connecting(&mut self, key: RelayKey) {
        let Some(Relay::Connecting { client, home, way }) = self.shard.relays.get(key) else { return };
        let (client, way) = (*client, *way);
        match is_connected(home) {
            Ok(false) => {}
            Ok(true) => self.open_relay(key, client),
            Err(error) => {
                self.shard.relays.remove(key);
                self.fail_way(client, way, &error.to_string());
            }
        }
    }

    /// The home is connected: the client's connection leaves the engine.
    fn open_relay(&mut self, key: RelayKey, client: ConnectionKey) {
        let Some(Relay::Connecting { home, way, .. }) = self.shard.relays.remove_for_now(key) else { return };
        let tenant = self.shard.accepting().tenant_to_relay(client);
        let Some(bytes) = self.shard.engine.homes().leave_for_home(client) else {
            // The client has disconnected meanwhile.
            self.shard.relays.free(key);
            return;
        };
        let origin = ClientOrigin { listener: self.shard.table.listener(client), tenant };
        let Some((flags, mut transport, seat)) = self.shard.table.remove(client) else {
            self.shard.relays.free(key);
            return;
        };
        let goodbye = Goodbye::of(&bytes);
        let mut of_client = Follower::default();
        of_client.follow(&bytes);
        let mut output = Output::default();
        output.append(&header::on(way, transport.peer(), tenant, self.shard.shared.cluster_secret.as_ref()));
        output.append(&bytes);
        let registered = flags.has(Flags::REGISTERED);
        let moved = if registered { transport.deregister(self.shard.poll.registry()) } else { Ok(()) };
        let moved = moved.and_then(|()| transport.register(self.shard.poll.registry(), key.token(CLIENT)));
        // Small messages are sent at once; a failure to set the option is harmless.
        let _ = home.set_nodelay(true);
        let ends = [End::of(transport), End::with_output(Transport::Tcp(home), output)];
        let (stage, sieve) = (MoveStage::Open, Sieve::default());
        let mut pair = Box::new(Pair { ends, seat, ending: false, goodbye, sieve, sent: of_client, stage, origin });
        if moved.is_err() {
            pair.ends[CLIENT].fail();
        }
        self.shard.counters.relayed += 1;
        let quic = pair.client_transport().quic().map(|quic| quic.id());
        self.shard.relays.put(key, Relay::Open(pair));
        if let Some(id) = quic {
            self.shard.datagrams().own_quic(id, Owner::Relay(key));
        }
        self.pump_relay(key);
    }

    /// Moves the pending bytes of a relay, and ends it when both ends are done.
    pub(crate) fn pump_relay(&mut self, key: RelayKey) {
        let Some(Relay::Open(pair)) = self.shard.relays.get(key) else { return };
        let pumped = pair.pump(&mut self.shard.buffer);
        for (side, end) in [CLIENT, HOME].into_iter().zip(&mut pair.ends) {
            end.show_blocked(self.shard.poll.registry(), key.token(side));
        }
        let begins_to_end = pair.is_ending() && !pair.ending;
        pair.ending |= begins_to_end;
        let quic = pair.client_transport().quic().map(|quic| quic.id());
        let is_over = pair.is_over();
        if let Some(id) = quic {
            self.shard.datagrams().touch_quic(id);
        }
        let more = match pumped {
            Pumped::Left { parcel, search } => return self.begin_moving(key, parcel, search),
            Pumped::Refused(code) => return self.dismiss_refused(key, code),
            Pumped::Bytes { .. } if is_over => return self.end_relay(key),
            Pumped::Bytes { more } => more,
        };
        if begins_to_end {
            self.shard.relays.set_deadline(self.shard.now.monotonic, key, Stage::Ending);
        }
        if more {
            self.shard.relays.ring.push_back(key);
        }
    }

    /// Continues relays that had more to move than one turn allows.
    pub(crate) fn work_relays(&mut self) {
        for _ in 0..self.shard.relays.ring.len() {
            let Some(key) = self.shard.relays.ring.pop_front() else { break };
            self.pump_relay(key);
            self.end_farewell(key);
        }
        while let Some((key, stage)) = self.shard.relays.pop_due(self.shard.heard.until()) {
            match stage {
                Stage::Connecting => self.end_late_connection(key),
                Stage::Ending => self.end_relay(key),
                Stage::Continuing => self.bring_again(key),
            }
        }
        self.retry_moves();
    }

    /// The home of a client, or a node on the way to it, has not answered in time.
    fn end_late_connection(&mut self, key: RelayKey) {
        if matches!(self.shard.relays.get(key), Some(Relay::Open(_))) {
            self.give_up_carrying(key);
        } else if let Some(Relay::Connecting { client, way, .. }) = self.shard.relays.remove(key) {
            self.fail_way(client, way, "no answer");
        }
    }

    pub(super) fn end_relay(&mut self, key: RelayKey) {
        let (mut client, seat) = match self.shard.relays.remove(key) {
            Some(Relay::Open(pair)) => {
                let Pair { ends: [client, _], seat, .. } = *pair;
                (client, seat)
            }
            Some(Relay::Moving(departed)) => (departed.client, departed.seat),
            Some(Relay::Farewell(last)) => (last.client, last.seat),
            Some(Relay::Connecting { .. }) | None => return,
        };
        self.shard.counters.relays_ended += 1;
        if let Some(quic) = client.transport_mut().quic() {
            self.shard.datagrams().disown_quic(quic);
        }
        self.shard.admission().free_seat(seat);
        self.shard.shared.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        self.shard.shortage.relieve();
    }

    /// Ends all relays, since the node stops. MQTT 5 clients get a DISCONNECT, if no packet is under way.
    pub(crate) fn end_relays(&mut self) {
        let now = self.shard.now.monotonic;
        for key in self.shard.relays.all() {
            match self.shard.relays.get(key) {
                Some(Relay::Open(pair)) => {
                    pair.begin_to_stop();
                    self.shard.relays.set_deadline(now, key, Stage::Ending);
                    self.pump_relay(key);
                }
                Some(Relay::Moving(_)) => {
                    self.shard.relays.set_deadline(now, key, Stage::Ending);
                    self.begin_farewell(key);
                }
                Some(Relay::Farewell(_) | Relay::Connecting { .. }) | None => {}
            }
        }
    }
}

/// Whether a connection is established; an error if it cannot be.
pub(super) fn is_connected(home: &TcpStream) -> std::io::Result<bool> {
    if let Some(error) = home.take_error()? {
        return Err(error);
    }
    match home.peer_addr() {
        // Not connected yet: the event was for another reason.
        Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(false),
        other => other.map(|_| true),
    }
}
