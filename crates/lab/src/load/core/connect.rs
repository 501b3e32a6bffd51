//! Arrival and departure of clients.

use std::num::NonZeroU16;

use tidegate_mqtt::{ConnAck, Connect, ConnectProperties, PacketId, ReasonCode, SubAck};

use super::{Action, Core, Failure, MILLI, NONE, Phase, State};
use crate::load::plan::Begin;
use crate::load::timers::Timer;

/// The packet id of SUBSCRIBE: a client subscribes before it publishes.
pub(super) const SUBSCRIBE_ID: PacketId = PacketId::MIN;

/// How often a client shows that it is there, in shares of its keep-alive time.
pub(super) const PINGS_PER_KEEP_ALIVE: u64 = 2;

impl Core {
    /// A connection is open: the client sends its CONNECT.
    pub(crate) fn opened(&mut self, connection: u32) {
        let client = connection / 2;
        let place = &mut self.run.clients[client];
        if place.connection(client) != connection || place.state != State::Dialling {
            return;
        }
        place.state = State::Greeting;
        let group = &self.run.plan.groups[usize::from(place.group)];
        let id = name(&group.connect.client_id, &group.name, place.number, self.run.plan.seed);
        let credentials = self.run.plan.target.credentials.as_ref();
        let username =
            credentials.map(|credentials| name(&credentials.username, &group.name, place.number, self.run.plan.seed));
        let connect = Connect {
            version: self.run.version,
            bridge: false,
            clean_start: group.connect.clean,
            keep_alive: group.connect.keep_alive_s,
            client_id: &id,
            will: None,
            username: username.as_deref(),
            password: credentials.map(|credentials| credentials.password.as_bytes()),
            properties: ConnectProperties {
                session_expiry_interval: group.connect.session_expiry_s,
                receive_maximum: group.connect.receive_maximum.and_then(NonZeroU16::new),
                ..ConnectProperties::default()
            },
        };
        if connect.encode(&mut place.out.bytes).is_err() {
            self.give_up(client, Failure::Broken, 0);
            return;
        }
        self.run.clients.touch(client);
    }

    pub(super) fn on_connack(&mut self, client: u32, connack: &ConnAck<'_>, now_ns: u64) {
        if self.run.clients[client].state != State::Greeting {
            return;
        }
        if connack.reason_code != ReasonCode::Success {
            self.fail(client, Failure::Refused, now_ns);
            return;
        }
        self.run.clients.connected += 1;
        self.run.books.connections.accepted += 1;
        self.run.books.connections.most = self.run.books.connections.most.max(self.run.clients.connected);
        self.run.meter.current.accepted += 1;
        let place = &self.run.clients[client];
        self.run.books.connecting.record(now_ns.saturating_sub(place.since_ns));
        if let Some(publisher) = self.publishers.of(place) {
            publisher.connected(connack.properties.receive_maximum.map(NonZeroU16::get), connack.session_present);
        }
        if !connack.session_present {
            self.receivers.forget_packet_ids(client);
        }
        let group = &self.run.plan.groups[usize::from(place.group)];
        let keep_alive_ns = u64::from(group.connect.keep_alive_s) * 1_000 * MILLI;
        if keep_alive_ns > 0 {
            let timer = Timer::Ping { client, epoch: place.epoch };
            self.run.timers.set(now_ns + keep_alive_ns / PINGS_PER_KEEP_ALIVE, timer);
        }
        let addressed = self.run.subscribing(client).is_some_and(|subscribing| subscribing.addressed);
        let subscribed = place.receiver == NONE || addressed || (place.known && connack.session_present);
        if subscribed || !self.run.subscribe(client, now_ns) {
            self.ready(client, now_ns);
        }
    }

    pub(super) fn on_suback(&mut self, client: u32, suback: &SubAck<'_>, now_ns: u64) {
        let place = &mut self.run.clients[client];
        if place.state != State::Subscribing {
            return;
        }
        self.run.books.subscribing.record(now_ns.saturating_sub(place.since_ns));
        let refused = suback.reason_codes.iter().filter(|code| code.is_error()).count();
        self.run.books.connections.subscriptions_refused += refused as u64;
        place.known = true;
        self.ready(client, now_ns);
    }

    /// A client works.
    fn ready(&mut self, client: u32, now_ns: u64) {
        let place = &mut self.run.clients[client];
        place.state = State::Ready;
        let (publisher, epoch) = (place.publisher, place.epoch);
        self.arrivals.note_outcome(&mut self.run, client, now_ns);
        if let Some(slow) = self.run.subscribing(client).and_then(|subscribing| subscribing.slow) {
            self.run.timers.set(now_ns + slow.every_ms * MILLI, Timer::Read { client, epoch });
        }
        if publisher == NONE || self.run.phase != Phase::Publishing {
            return;
        }
        let begin = if self.run.plan.begin == Begin::AtOnce { now_ns } else { self.run.times.began };
        self.publishers.start(&mut self.run, publisher, begin);
        self.publishers.resend(&mut self.run, publisher);
        self.publishers.pump(&mut self.run, publisher, now_ns);
    }

    /// A connection has ended.
    pub(crate) fn closed(&mut self, connection: u32, now_ns: u64) {
        let client = connection / 2;
        let place = &self.run.clients[client];
        if place.connection(client) != connection {
            return;
        }
        match place.state {
            State::Waiting | State::Away | State::Gone => {}
            State::Dialling | State::Greeting => self.fail(client, Failure::Broken, now_ns),
            State::Subscribing | State::Ready => {
                if self.run.phase != Phase::Leaving {
                    self.run.books.connections.lost += 1;
                    self.run.meter.current.lost += 1;
                }
                self.gone_away(client, now_ns);
                self.run.return_or_stay_away(client, now_ns);
            }
        }
    }

    pub(super) fn timed_out(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &self.run.clients[client];
        if place.epoch == epoch && matches!(place.state, State::Dialling | State::Greeting) {
            self.fail(client, Failure::TimedOut, now_ns);
        }
    }

    fn fail(&mut self, client: u32, failure: Failure, now_ns: u64) {
        let connection = self.run.clients[client].connection(client);
        self.run.clients.request(Action::Cut(connection));
        self.give_up(client, failure, now_ns);
    }

    /// An attempt has failed.
    fn give_up(&mut self, client: u32, failure: Failure, now_ns: u64) {
        *match failure {
            Failure::Refused => &mut self.run.books.connections.refused,
            Failure::TimedOut => &mut self.run.books.connections.timed_out,
            Failure::Broken => &mut self.run.books.connections.broken,
        } += 1;
        self.run.meter.current.failed += 1;
        self.run.clients[client].since_ns = now_ns;
        self.run.return_or_stay_away(client, now_ns);
        self.arrivals.note_outcome(&mut self.run, client, now_ns);
    }

    /// A client has lost its connection, for whatever reason.
    pub(super) fn gone_away(&mut self, client: u32, now_ns: u64) {
        if self.run.clients[client].is_connected() {
            self.run.clients.connected -= 1;
        }
        let place = &mut self.run.clients[client];
        place.state = State::Away;
        place.since_ns = now_ns;
        place.out.clear();
        self.receivers.went_away(place);
        if let Some(publisher) = self.publishers.of(place) {
            publisher.disconnected(self.run.group_of(client).connect.clean);
        }
        self.arrivals.note_outcome(&mut self.run, client, now_ns);
    }

    /// The broker has named another server (MQTT 5: 0x9C, 0x9D): the client connects there at once, if it is one of the
    /// target's.
    pub(super) fn on_sent_elsewhere(&mut self, client: u32, reference: &str, now_ns: u64) {
        let Some((host, port)) = reference.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)))
        else {
            return;
        };
        let Some(there) = self.run.plan.target.places().position(|place| place == (host, port)) else { return };
        let place = &mut self.run.clients[client];
        if !place.is_connected() {
            return;
        }
        place.place = there as u16;
        let (connection, epoch) = (place.connection(client), place.epoch);
        self.run.books.connections.handed_over += 1;
        self.run.clients.request(Action::Cut(connection));
        self.gone_away(client, now_ns);
        self.run.timers.set(now_ns, Timer::Return { client, epoch });
    }

    pub(super) fn come_back(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &self.run.clients[client];
        if place.epoch != epoch || !matches!(place.state, State::Away | State::Gone) || self.run.phase == Phase::Leaving
        {
            return;
        }
        self.receivers.note_absence(&self.run, client, now_ns);
        // The connection before may not have ended yet as the network sees it.
        self.run.clients[client].slot ^= 1;
        self.run.dial(client, now_ns);
    }

    /// Clients begin to leave.
    pub(super) fn leave(&mut self, now_ns: u64) {
        self.run.phase = Phase::Leaving;
        self.departures.leave_next(&mut self.run, now_ns);
    }
}

/// Puts the names into a template for names.
fn name(template: &str, group: &str, number: u32, seed: u64) -> String {
    let text = template.replace("{group}", group).replace("{run}", &format!("{:x}", seed & 0xFFFF_FFFF));
    crate::load::template::Template::new(&text).map_or_else(|_| text.clone(), |template| template.expand(number, 0))
}
