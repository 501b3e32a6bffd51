//! A relayed client whose home moves keeps its socket: its node takes the image of the connection from the old home to
//! the new one, and brings bytes to and fro again when the new home has the connection. A client that was at home here
//! becomes a relayed one in the same way.

use mio::Interest;
use mio::event::Event as Readiness;
use mio::net::TcpStream;
use std::net::SocketAddr;
use tidegate_engine::{Home, ListenerId, Millis, NotContinued, Output, Reason};

use super::end::End;
use super::frame::{Parcel, REFUSED, image_of};
use super::goodbye::Goodbye;
use super::pair::{ClientOrigin, MoveStage, Pair};
use super::sieve::Sieve;
use super::slots::Stage;
use super::{CLIENT, HOME, Relay, RelayKey, header, is_connected};
use crate::admission::Seat;
use crate::observer::Peer;
use crate::quic::Owner;
use crate::shard::facets::{RelayCalls, SocketCalls};
use crate::shard::inbox::{Adoption, ToShard};
use crate::transport::Transport;
use tidegate_engine::ConnectionKey;

/// How long a client whose home moves waits for the new one, milliseconds: as long as its session waits there.
const MOVE_PATIENCE_MS: u64 = 10_000;

/// The client's end of a relay whose home moves.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(super) client: End,
    pub(super) seat: Seat,
    goodbye: Goodbye,
    origin: ClientOrigin,
    parcel: Parcel,
    until: Millis,
    /// The new home that is being connected to.
    attempt: Option<(TcpStream, SocketAddr)>,
}

impl RelayCalls<'_> {
    /// A relayed connection has left its home.
    pub(super) fn begin_moving(&mut self, key: RelayKey, parcel: Parcel, until: Option<Millis>) {
        let Some(Relay::Open(pair)) = self.shard.relays.remove_for_now(key) else { return };
        let Pair { ends: [client, _], seat, goodbye, origin, .. } = *pair;
        let until = until.unwrap_or_else(|| self.shard.now.monotonic.plus(MOVE_PATIENCE_MS));
        let departed = Departed { client, seat, goodbye, origin, parcel, until, attempt: None };
        self.shard.relays.put(key, Relay::Moving(Box::new(departed)));
        self.shard.relays.await_home(key, self.shard.now.monotonic);
    }

    /// The connection of a client that was at home here has left; its socket stays.
    pub(crate) fn keep_departed(
        &mut self,
        mut transport: Transport,
        is_registered: bool,
        (seat, origin): (Seat, ClientOrigin),
        (parcel, until): (Parcel, Option<Millis>),
    ) {
        let registry = self.shard.poll.registry();
        let freed = if is_registered { transport.deregister(registry) } else { Ok(()) };
        let goodbye = image_of(&parcel.proven, self.shard.shared.cluster_secret.as_ref())
            .map_or(Goodbye::Never, |image| Goodbye::for_version(image.version(), image.max_packet()));
        let until = until.unwrap_or_else(|| self.shard.now.monotonic.plus(MOVE_PATIENCE_MS));
        let quic = transport.quic().map(|quic| quic.id());
        let client = End::of(transport);
        let departed = Departed { client, seat, goodbye, origin, parcel, until, attempt: None };
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
        self.shard.relays.await_home(key, self.shard.now.monotonic);
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
        let Some((home, at)) = &departed.attempt else { return };
        let at = *at;
        match is_connected(home) {
            Ok(false) => {}
            Ok(true) => self.bring(key),
            Err(error) => {
                departed.attempt = None;
                tracing::debug!(%at, %error, "cannot reach the new home of a client; it is tried again");
            }
        }
    }

    /// Looks for the new homes of clients.
    pub(super) fn retry_moves(&mut self) {
        let now = self.shard.now.monotonic;
        for key in self.shard.relays.take_moving(now) {
            let Some(Relay::Moving(departed)) = self.shard.relays.get(key) else { continue };
            if departed.until <= now {
                self.give_up_move(key);
                continue;
            }
            let is_tried = departed.attempt.is_some();
            if is_tried || !self.go_home(key) {
                self.shard.relays.wait_on(key, now);
            }
        }
    }

    /// Goes to the new home if there is one by now; says whether the client is at home here.
    fn go_home(&mut self, key: RelayKey) -> bool {
        let Some(Relay::Moving(departed)) = self.shard.relays.get(key) else { return false };
        match self.shard.engine.questions().home_to_continue_at(departed.parcel.partition) {
            Home::Nowhere => {}
            Home::Here => {
                departed.client.flush(&mut self.shard.buffer);
                if !departed.client.has_output() {
                    self.come_home(key);
                    return true;
                }
            }
            Home::At(place) => {
                let at = self.shard.relay_to.get(usize::from(place)).copied().flatten();
                let home = at.and_then(|at| Some((TcpStream::connect(at).ok()?, at)));
                departed.attempt = home.and_then(|(mut home, at)| {
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    let token = key.token(HOME);
                    mio::event::Source::register(&mut home, self.shard.poll.registry(), token, interest).ok()?;
                    Some((home, at))
                });
            }
        }
        false
    }

    /// The new home is reached: it is sent the image of the connection.
    fn bring(&mut self, key: RelayKey) {
        let Some(Relay::Moving(departed)) = self.shard.relays.remove_for_now(key) else { return };
        let Departed { mut client, seat, goodbye, origin, parcel, until, attempt } = *departed;
        let Some((home, _)) = attempt else { return };
        let secret = self.shard.shared.cluster_secret.as_ref();
        let mut output = Output::default();
        output.append(&header::of(client.transport_mut().peer(), origin.tenant, secret));
        output.append(&parcel.to_home());
        let _ = home.set_nodelay(true);
        let ends = [client, End::with_output(Transport::Tcp(home), output)];
        let (stage, sieve) = (MoveStage::Continuing { parcel, until }, Sieve::of_accepted());
        let pair = Pair { ends, seat, ending: false, goodbye, sieve, stage, origin };
        self.shard.relays.put(key, Relay::Open(Box::new(pair)));
        self.shard.relays.set_deadline(self.shard.now.monotonic, key, Stage::Continuing);
        self.pump_relay(key);
    }

    /// The new home does not answer: the image is brought again, until time is up.
    pub(super) fn bring_again(&mut self, key: RelayKey) {
        if let Some(Relay::Open(pair)) = self.shard.relays.get(key)
            && let Some((parcel, until)) = pair.take_parcel()
        {
            self.begin_moving(key, parcel, Some(until));
        }
    }

    /// The client is at home here: its connection goes to the shard of its home.
    fn come_home(&mut self, key: RelayKey) {
        let Some(Relay::Moving(departed)) = self.shard.relays.remove(key) else { return };
        let Departed { client, seat, origin, parcel, until, .. } = *departed;
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
        let continued = Some((parcel, until, origin));
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

impl SocketCalls<'_> {
    /// Takes in the connection of a client that is at home here again or from now on.
    pub(crate) fn adopt_continued(
        &mut self,
        (transport, listener, seat, peer): (Transport, ListenerId, Seat, Peer),
        (parcel, until, origin): (Parcel, Millis, ClientOrigin),
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
                self.shard.relaying().keep_departed(transport, false, (seat, origin), (parcel, Some(until)));
            }
            Err(NotContinued::NotExpected) => self.lose(key),
        }
    }

    /// Another node brings the image of a connection.
    pub(crate) fn take_image(&mut self, key: ConnectionKey, proven: &[u8]) {
        let image = image_of(proven, self.shard.shared.cluster_secret.as_ref());
        let continued = image.ok_or(NotContinued::NotExpected).and_then(|image| self.continue_here(key, &image, true));
        match continued {
            Ok(()) => {}
            // The other node tries again.
            Err(NotContinued::NotHere) => self.lose(key),
            Err(NotContinued::NotExpected) => {
                self.shard.engine.outputs().append_frame(key, &REFUSED);
                let detail = "its session does not expect this connection";
                self.shard.engine.handle_transport_failed(self.shard.now, key, Reason::NotServedHere, detail);
            }
        }
    }

    fn continue_here(
        &mut self,
        key: ConnectionKey,
        image: &tidegate_engine::ConnectionImage,
        tell: bool,
    ) -> Result<(), NotContinued> {
        self.shard.admission().count_continued(key, image).map_err(|_| NotContinued::NotExpected)?;
        let continued = self.shard.engine.homes().continue_connection(self.shard.now, key, image, tell);
        match continued {
            Ok(()) => self.shard.counters.continued += 1,
            Err(_) => self.shard.admission().uncount_user(key),
        }
        continued
    }

    /// A connection whose transport is dropped is counted no more.
    fn drop_transport(&mut self, seat: Seat) {
        self.shard.admission().free_seat(seat);
        self.shard.shared.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}
