//! A relayed client whose home moves keeps its socket: its node takes the image of the connection from the old home to
//! the new one, and carries bytes again when the new home has the connection. A client whose home was here becomes a
//! relayed one in the same way.

use mio::Interest;
use mio::event::Event as Readiness;
use mio::net::TcpStream;
use tidegate_engine::{Home, ListenerId, NotContinued, Output, Reason};

use super::relaying::is_connected;
use crate::admission::Seat;
use crate::orders::{Adoption, ToShard};
use crate::peer::Peer;
use crate::relay::departed::{Departed, HomeAttempt};
use crate::relay::end::{End, READ_AHEAD_BYTES};
use crate::relay::follower::Follower;
use crate::relay::frame::{Parcel, image_of, refused};
use crate::relay::goodbye::Goodbye;
use crate::relay::pair::MoveStage;
use crate::relay::search::{MOVE_PATIENCE_MS, RETRY_MS};
use crate::relay::sieve::Sieve;
use crate::relay::slots::Stage;
use crate::relay::{CLIENT, ClientOrigin, HOME, Pair, Relay, RelayKey, Search, Way, header};
use crate::shard::datagrams::Owner;
use crate::shard::facets::{RelayCalls, SocketCalls};
use crate::transport::{Input, Transport};
use tidegate_engine::ConnectionKey;

/// How long a new home may take to accept a connection, milliseconds.
const ATTEMPT_MS: u64 = 1_000;

impl RelayCalls<'_> {
    /// A relayed connection has left its home.
    pub(super) fn begin_moving(&mut self, key: RelayKey, parcel: Parcel, search: Option<Search>) {
        let Some(Relay::Open(pair)) = self.shard.relays.remove_for_now(key) else { return };
        let Pair { ends: [client, _], seat, goodbye, origin, .. } = *pair;
        let now = self.shard.now.monotonic;
        let search = search.map_or_else(|| Search::from(now), Search::failed);
        let next_at = search.next_at(now);
        let departed = Departed { client, seat, goodbye, origin, parcel, search, next_at, attempt: None };
        self.shard.relays.put(key, Relay::Moving(Box::new(departed)));
        self.shard.relays.await_home(key, next_at);
    }

    /// The connection of a client whose home was here has left; its socket stays.
    pub(crate) fn keep_departed(
        &mut self,
        mut transport: Transport,
        is_registered: bool,
        (seat, origin): (Seat, ClientOrigin),
        (parcel, search): (Parcel, Option<Search>),
    ) {
        let registry = self.shard.poll.registry();
        let freed = if is_registered { transport.deregister(registry) } else { Ok(()) };
        let goodbye = image_of(&parcel.proven, self.shard.shared.cluster_secret.as_ref())
            .map_or(Goodbye::Never, |image| Goodbye::for_version(image.version(), image.max_packet()));
        let now = self.shard.now.monotonic;
        let search = search.map_or_else(|| Search::from(now), Search::failed);
        let next_at = search.next_at(now);
        let quic = transport.quic().map(|quic| quic.id());
        let client = End::of(transport);
        let departed = Departed { client, seat, goodbye, origin, parcel, search, next_at, attempt: None };
        let key = self.shard.relays.insert(Relay::Moving(Box::new(departed)));
        self.shard.counters.relayed += 1;
        if let Some(id) = quic {
            self.shard.datagrams().own_quic(id, Owner::Relay(key));
        }
        if let Some(Relay::Moving(departed)) = self.shard.relays.get(key) {
            let registry = self.shard.poll.registry();
            let registered = freed.and_then(|()| departed.client.transport_mut().register(registry, key.token(CLIENT)));
            if registered.is_err() {
                departed.client.fail();
            }
        }
        self.shard.relays.await_home(key, next_at);
    }

    /// Handles readiness of an end of a relay whose home moves.
    pub(super) fn take_moving_readiness(&mut self, key: RelayKey, side: usize, event: &Readiness) {
        let Some(Relay::Moving(departed)) = self.shard.relays.get(key) else { return };
        if side == CLIENT {
            departed.client.note(event);
            departed.client.flush(&mut self.shard.buffer);
            departed.client.show_blocked(self.shard.poll.registry(), key.token(CLIENT));
            return;
        }
        let Some(attempt) = &departed.attempt else { return };
        let way = attempt.way;
        match is_connected(&attempt.home) {
            Ok(false) => {}
            Ok(true) => self.bring(key),
            Err(error) => {
                departed.fail_attempt(self.shard.now.monotonic);
                tracing::debug!(%way, %error, "cannot reach the new home of a client; it is tried again");
            }
        }
    }

    /// Looks for the new homes of clients.
    pub(super) fn retry_moves(&mut self) {
        let now = self.shard.now.monotonic;
        for key in self.shard.relays.take_moving(now) {
            let Some(Relay::Moving(departed)) = self.shard.relays.get(key) else { continue };
            if departed.search.until <= now {
                self.give_up_move(key);
                continue;
            }
            let home = self.shard.engine.questions().home_to_continue_at(departed.parcel.partition);
            let way = place_of(home).and_then(|place| self.shard.ways.to_place(place));
            departed.end_late_attempt(now, way);
            if departed.next_at <= now && departed.attempt.is_none() {
                departed.next_at = now.plus(RETRY_MS);
                if self.go_home(key, home, way) {
                    continue;
                }
            }
            if let Some(Relay::Moving(departed)) = self.shard.relays.get(key) {
                let next_at = departed.attempt.as_ref().map_or(departed.next_at, |attempt| attempt.until);
                let next_at = next_at.min(departed.search.until);
                self.shard.relays.await_home(key, next_at);
            }
        }
    }

    /// Connects to the new home if the table names one. Returns true if the search is over: the home is this node, or this
    /// node stops and the client is to connect elsewhere.
    fn go_home(&mut self, key: RelayKey, home: Home, way: Option<Way>) -> bool {
        let Some(Relay::Moving(departed)) = self.shard.relays.get(key) else { return false };
        // The new home learns of a client that has ended its connection, and publishes its will.
        if self.shard.hands_over && matches!(home, Home::At(_)) && !departed.client.is_peer_closed() {
            self.shard.relays.set_deadline(self.shard.now.monotonic, key, Stage::Ending);
            self.begin_farewell(key);
            return true;
        }
        match home {
            Home::Nowhere => {}
            Home::Here => {
                departed.client.flush(&mut self.shard.buffer);
                if !departed.client.has_output() {
                    self.come_home(key);
                    return true;
                }
            }
            Home::At(_) => {
                let until = self.shard.now.monotonic.plus(ATTEMPT_MS);
                let home = way.and_then(|way| Some((TcpStream::connect(way.first()).ok()?, way)));
                departed.attempt = home.and_then(|(mut home, way)| {
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    let token = key.token(HOME);
                    mio::event::Source::register(&mut home, self.shard.poll.registry(), token, interest).ok()?;
                    Some(HomeAttempt { home, way, until })
                });
            }
        }
        false
    }

    /// The new home is connected: it gets the image of the connection.
    fn bring(&mut self, key: RelayKey) {
        let Some(Relay::Moving(departed)) = self.shard.relays.remove_for_now(key) else { return };
        let Departed { mut client, seat, goodbye, origin, mut parcel, search, attempt, .. } = *departed;
        let Some(HomeAttempt { home, way, .. }) = attempt else { return };
        client.read_ahead(&mut parcel.tail, &mut self.shard.buffer);
        let secret = self.shard.shared.cluster_secret.as_ref();
        let mut output = Output::default();
        output.append(&header::on(way, client.transport_mut().peer(), origin.tenant, secret));
        output.append(&parcel.to_home());
        let _ = home.set_nodelay(true);
        let ends = [client, End::with_output(Transport::Tcp(home), output)];
        let mut sent = Follower::default();
        sent.follow(&parcel.tail);
        let (stage, sieve) = (MoveStage::Continuing { parcel, search }, Sieve::of_accepted());
        let pair = Pair { ends, seat, ending: false, goodbye, sieve, sent, stage, origin };
        self.shard.relays.put(key, Relay::Open(Box::new(pair)));
        self.shard.relays.set_deadline(self.shard.now.monotonic, key, Stage::Continuing);
        self.pump_relay(key);
    }

    /// The new home does not answer: the image is brought again, until time is up.
    pub(super) fn bring_again(&mut self, key: RelayKey) {
        if let Some(Relay::Open(pair)) = self.shard.relays.get(key)
            && let Some((parcel, search)) = pair.take_parcel()
        {
            self.begin_moving(key, parcel, Some(search));
        }
    }

    /// The client's home is here: its connection goes to the shard of its home.
    fn come_home(&mut self, key: RelayKey) {
        let Some(Relay::Moving(departed)) = self.shard.relays.remove(key) else { return };
        let Departed { client, seat, origin, parcel, search, .. } = *departed;
        self.shard.counters.relays_ended += 1;
        let mut transport = client.into_transport();
        // A socket that cannot be taken from the poller is not read elsewhere either: its client connects again.
        let _ = transport.deregister(self.shard.poll.registry());
        let home = self.shard.place.home_of(parcel.partition);
        if home != self.shard.place.shard
            && let Some(quic) = transport.quic()
        {
            self.shard.datagrams().redirect_quic(quic, home);
        }
        let peer = transport.peer();
        let continued = Some((parcel, search, origin));
        let listener = origin.listener;
        let adoption = Adoption { transport, listener, seat, peer, bytes: Vec::new(), admitted: None, continued };
        if let Some(inbox) = self.shard.inboxes.get(usize::from(home.0)) {
            inbox.send(ToShard::Adopt(Box::new(adoption)));
        }
    }

    /// No home has taken the client in time.
    fn give_up_move(&mut self, key: RelayKey) {
        self.shard.counters.relays_failed += 1;
        if let Some(times) = self.shard.relays.unreachable.note(self.shard.now.monotonic) {
            tracing::warn!(times, "no node has continued the connection of a client within {MOVE_PATIENCE_MS} ms");
        }
        self.end_relay(key);
    }
}

fn place_of(home: Home) -> Option<u16> {
    if let Home::At(place) = home { Some(place) } else { None }
}

impl SocketCalls<'_> {
    /// Takes a relayed connection of a client whose home is now here.
    pub(crate) fn adopt_continued(
        &mut self,
        (transport, listener, seat, peer): (Transport, ListenerId, Seat, Peer),
        (parcel, search, origin): (Parcel, Search, ClientOrigin),
    ) {
        let Some(image) = image_of(&parcel.proven, self.shard.shared.cluster_secret.as_ref()) else {
            return self.drop_transport(seat);
        };
        let Some(key) = self.open(transport, listener, seat, peer) else { return };
        match self.continue_here(key, &image, false) {
            Ok(()) => {
                self.shard.engine.handle_input(self.shard.now, key, &parcel.tail);
                self.register(key);
                // It may have had input before it was registered.
                self.shard.become_readable(key);
            }
            Err(NotContinued::NotHere) => {
                self.shard.engine.release_connection(key);
                let Some((_, transport, seat)) = self.shard.table.remove(key) else { return };
                self.shard.relaying().keep_departed(transport, false, (seat, origin), (parcel, Some(search)));
            }
            Err(NotContinued::NotExpected) => {
                let rest = self.rest_of_client(key, parcel.tail);
                self.shard.engine.homes().end_unexpected(self.shard.now, &image, &rest);
                self.lose(key);
            }
            Err(NotContinued::Refused(reason)) => self.dismiss_client(key, &image, reason),
        }
    }

    /// Another node brings the image of a connection.
    pub(crate) fn take_image(&mut self, key: ConnectionKey, proven: &[u8]) {
        let image = image_of(proven, self.shard.shared.cluster_secret.as_ref());
        let continued =
            image.as_ref().ok_or(NotContinued::NotExpected).and_then(|image| self.continue_here(key, image, true));
        match continued {
            Ok(()) => {}
            // The other node tries again.
            Err(NotContinued::NotHere) => self.lose(key),
            Err(NotContinued::NotExpected) => {
                if let Some(image) = &image {
                    let rest = self.shard.engine.questions().unread_input(key);
                    self.shard.engine.homes().end_unexpected(self.shard.now, image, &rest);
                }
                self.shard.engine.outputs().append_frame(key, &refused(None));
                let detail = "its session does not expect this connection";
                self.shard.engine.handle_transport_failed(self.shard.now, key, Reason::NotServedHere, detail);
            }
            Err(NotContinued::Refused(reason)) => {
                self.shard.engine.outputs().append_frame(key, &refused(Some(reason.code_of_disconnect())));
                self.refuse_continued(key, reason);
            }
        }
    }

    fn continue_here(
        &mut self,
        key: ConnectionKey,
        image: &tidegate_engine::ConnectionImage,
        tell: bool,
    ) -> Result<(), NotContinued> {
        self.check_credential(key, image).inspect_err(|error| self.note_not_continued(*error))?;
        if let Some(address) = self.shard.admission().address_of(key) {
            self.shard.engine.control().name_host(key, &address.to_canonical());
        }
        let continued = self.shard.engine.homes().continue_connection(self.shard.now, key, image, tell);
        match continued {
            Ok(()) => self.shard.counters.continued += 1,
            Err(error) => {
                self.shard.admission().uncount_user(key);
                self.note_not_continued(error);
            }
        }
        continued
    }

    /// All bytes that a client has sent behind the image of its connection, as far as they are read ahead.
    fn rest_of_client(&mut self, key: ConnectionKey, mut rest: Vec<u8>) -> Vec<u8> {
        while rest.len() < READ_AHEAD_BYTES
            && let Some((_, transport)) = self.shard.table.get(key)
            && let Ok(Input::Bytes { payload, .. } | Input::Last { payload, .. }) =
                transport.read(&mut self.shard.buffer)
            && !payload.is_empty()
        {
            rest.extend_from_slice(self.shard.buffer.get(payload).unwrap_or_default());
        }
        rest
    }

    /// Counts a connection that is not continued here, unless it is tried again.
    fn note_not_continued(&mut self, error: NotContinued) {
        self.shard.counters.not_continued += u64::from(error != NotContinued::NotHere);
    }

    /// A connection whose transport is dropped is counted no more.
    fn drop_transport(&mut self, seat: Seat) {
        self.shard.admission().free_seat(seat);
        self.shard.shared.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tidegate_engine::{Millis, PartitionId};

    use super::*;

    #[test]
    fn an_attempt_ends_in_time_or_when_the_home_is_another() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let dial = || TcpStream::connect(at).unwrap();
        let way = Way { home: at, through: None };
        let attempt = || Some(HomeAttempt { home: dial(), way, until: Millis(ATTEMPT_MS) });
        let mut departed = Departed {
            client: End::of(Transport::Tcp(dial())),
            seat: Seat::NONE,
            goodbye: Goodbye::Never,
            origin: ClientOrigin { listener: ListenerId(0), tenant: None },
            parcel: Parcel { partition: PartitionId(1), proven: Vec::new(), tail: Vec::new() },
            search: Search::from(Millis(0)),
            next_at: Millis(0),
            attempt: attempt(),
        };
        departed.end_late_attempt(Millis(ATTEMPT_MS - 1), Some(way));
        assert!(departed.attempt.is_some());
        departed.end_late_attempt(Millis(ATTEMPT_MS), Some(way));
        assert!(departed.attempt.is_none());
        assert_eq!(departed.next_at, Millis(ATTEMPT_MS + RETRY_MS), "it is tried again later");
        departed.attempt = attempt();
        departed.end_late_attempt(Millis(0), Some(Way { through: Some(at), ..way }));
        assert!(departed.attempt.is_none(), "the direct way is cut");
        assert_eq!(departed.next_at, Millis(ATTEMPT_MS + RETRY_MS), "that is no failure");
    }
}
