//! Clients come, and sometimes go.

use std::num::NonZeroU16;

use tidegate_mqtt::{
    ConnAck, Connect, ConnectProperties, PacketId, PingReq, QoS, ReasonCode, SubAck, Subscribe, SubscriptionOptions,
    Subscriptions, TopicFilter,
};

use super::{Action, Core, Failure, NONE, Phase, State};
use crate::load::directory::{filters_of, subscribing};
use crate::load::plan::{Begin, Ramp};
use crate::load::timers::Timer;

const MILLI: u64 = 1_000_000;

/// The packet id of SUBSCRIBE: a client subscribes before it publishes.
const SUBSCRIBE_ID: PacketId = PacketId::MIN;

/// How often a client shows that it is there, in shares of its keep-alive time.
const PINGS_PER_KEEP_ALIVE: u64 = 2;

impl Core {
    /// Lets those dial whose turn has come.
    pub(super) fn dial_due(&mut self, now_ns: u64) {
        while self.next_dial < self.clients.len() && self.on_their_way < self.plan.dialing {
            let turn_ns = self.turn_of(self.next_dial as u64);
            if turn_ns > now_ns {
                self.timers.set(turn_ns, Timer::Ramp);
                return;
            }
            let client = self.next_dial as u32;
            self.next_dial += 1;
            self.on_their_way += 1;
            self.clients[client as usize].on_its_way = true;
            self.dial(client, now_ns);
        }
    }

    /// Processes take turns, so that the ramp of the plan is that of all together.
    fn turn_of(&self, place: u64) -> u64 {
        let processes = u64::from(self.plan.processes);
        match self.plan.ramp {
            Ramp::AtOnce => 0,
            ramp => ramp.dials_at(place * processes),
        }
    }

    pub(super) fn dial(&mut self, client: u32, now_ns: u64) {
        let place = &mut self.clients[client as usize];
        place.epoch += 1;
        place.state = State::Dialling;
        place.since_ns = now_ns;
        place.out.clear();
        self.books.connections.dialled += 1;
        let (connection, epoch) = (place.connection(client), place.epoch);
        self.actions.push(Action::Dial(connection));
        self.timers.set(now_ns + self.plan.connect_timeout_ms * MILLI, Timer::Timeout { client, epoch });
    }

    /// A connection is open: the client says who it is.
    pub(crate) fn opened(&mut self, connection: u32) {
        let client = connection / 2;
        let place = &mut self.clients[client as usize];
        if place.connection(client) != connection || place.state != State::Dialling {
            return;
        }
        place.state = State::Greeting;
        let group = &self.plan.groups[usize::from(place.group)];
        let id = name(&group.connect.client_id, &group.name, place.number, self.plan.seed);
        let credentials = self.plan.target.credentials.as_ref();
        let username =
            credentials.map(|credentials| name(&credentials.username, &group.name, place.number, self.plan.seed));
        let connect = Connect {
            version: self.version,
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
        self.touch(client);
    }

    pub(super) fn on_connack(&mut self, client: u32, connack: &ConnAck<'_>, now_ns: u64) {
        if self.clients[client as usize].state != State::Greeting {
            return;
        }
        if connack.reason_code != ReasonCode::Success {
            self.fail(client, Failure::Refused, now_ns);
            return;
        }
        let place = &mut self.clients[client as usize];
        self.books.connecting.record(now_ns.saturating_sub(place.since_ns));
        self.books.connections.accepted += 1;
        self.meter.current.accepted += 1;
        self.connected += 1;
        self.books.connections.most = self.books.connections.most.max(self.connected);
        if let Some(publisher) = self.publishers.get_mut(place.publisher as usize) {
            publisher.connected(connack.properties.receive_maximum.map(NonZeroU16::get), connack.session_present);
        }
        if !connack.session_present {
            self.held.remove(&client);
        }
        let group = &self.plan.groups[usize::from(place.group)];
        let keep_alive_ns = u64::from(group.connect.keep_alive_s) * 1_000 * MILLI;
        if keep_alive_ns > 0 {
            let timer = Timer::Ping { client, epoch: place.epoch };
            self.timers.set(now_ns + keep_alive_ns / PINGS_PER_KEEP_ALIVE, timer);
        }
        let addressed = subscribing(&group.role).is_some_and(|subscribing| subscribing.addressed);
        if place.receiver == NONE || addressed || (place.known && connack.session_present) {
            self.ready(client, now_ns);
        } else {
            self.subscribe(client, now_ns);
        }
    }

    fn subscribe(&mut self, client: u32, now_ns: u64) {
        let place = &mut self.clients[client as usize];
        let Some(subscribing) = subscribing(&self.plan.groups[usize::from(place.group)].role) else { return };
        let filters: Vec<String> = filters_of(subscribing, place.number)
            .unwrap_or_default()
            .into_iter()
            .map(|filter| match &subscribing.shared {
                Some(share) => format!("$share/{share}/{filter}"),
                None => filter,
            })
            .collect();
        let options = SubscriptionOptions::new(QoS::from_bits(subscribing.qos).unwrap_or_default());
        let wanted: Vec<_> =
            filters.iter().filter_map(|filter| Some((TopicFilter::new(filter).ok()?, options))).collect();
        let subscribe = Subscribe {
            packet_id: SUBSCRIBE_ID,
            subscription_identifier: None,
            user_properties: tidegate_mqtt::UserProperties::default(),
            subscriptions: Subscriptions::new(&wanted),
        };
        place.state = State::Subscribing;
        place.since_ns = now_ns;
        if subscribe.encode(self.version, &mut place.out.bytes).is_err() {
            self.books.connections.subscriptions_refused += filters.len() as u64;
            self.ready(client, now_ns);
        }
        self.touch(client);
    }

    pub(super) fn on_suback(&mut self, client: u32, suback: &SubAck<'_>, now_ns: u64) {
        let place = &mut self.clients[client as usize];
        if place.state != State::Subscribing {
            return;
        }
        self.books.subscribing.record(now_ns.saturating_sub(place.since_ns));
        let refused = suback.reason_codes.iter().filter(|code| code.is_error()).count();
        self.books.connections.subscriptions_refused += refused as u64;
        place.known = true;
        self.ready(client, now_ns);
    }

    /// A client works.
    fn ready(&mut self, client: u32, now_ns: u64) {
        let place = &mut self.clients[client as usize];
        place.state = State::Ready;
        let (publisher, epoch) = (place.publisher, place.epoch);
        self.settled_down(client, now_ns);
        if let Some(slow) = subscribing(&self.plan.groups[usize::from(self.clients[client as usize].group)].role)
            .and_then(|subscribing| subscribing.slow)
        {
            self.timers.set(now_ns + slow.every_ms * MILLI, Timer::Read { client, epoch });
        }
        if publisher == NONE || self.phase != Phase::Publishing {
            return;
        }
        let begin = if self.plan.begin == Begin::AtOnce { now_ns } else { self.times.began };
        self.start(publisher, begin);
        self.resend(publisher);
        self.pump(publisher, now_ns);
    }

    /// A client is no longer among those that connect for the first time.
    fn settled_down(&mut self, client: u32, now_ns: u64) {
        let place = &mut self.clients[client as usize];
        if std::mem::take(&mut place.on_its_way) {
            self.on_their_way -= 1;
            self.pending -= 1;
            self.dial_due(now_ns);
        }
    }

    /// A connection has ended.
    pub(crate) fn closed(&mut self, connection: u32, now_ns: u64) {
        let client = connection / 2;
        let place = &self.clients[client as usize];
        if place.connection(client) != connection {
            return;
        }
        match place.state {
            State::Waiting | State::Away | State::Gone => {}
            State::Dialling | State::Greeting => self.fail(client, Failure::Broken, now_ns),
            State::Subscribing | State::Ready => {
                if self.phase != Phase::Leaving {
                    self.books.connections.lost += 1;
                    self.meter.current.lost += 1;
                }
                self.gone_away(client, now_ns);
                self.return_or_stay_away(client, now_ns);
            }
        }
    }

    pub(super) fn timed_out(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &self.clients[client as usize];
        if place.epoch == epoch && matches!(place.state, State::Dialling | State::Greeting) {
            self.fail(client, Failure::TimedOut, now_ns);
        }
    }

    fn fail(&mut self, client: u32, failure: Failure, now_ns: u64) {
        self.actions.push(Action::Cut(self.clients[client as usize].connection(client)));
        self.give_up(client, failure, now_ns);
    }

    /// An attempt has failed.
    fn give_up(&mut self, client: u32, failure: Failure, now_ns: u64) {
        *match failure {
            Failure::Refused => &mut self.books.connections.refused,
            Failure::TimedOut => &mut self.books.connections.timed_out,
            Failure::Broken => &mut self.books.connections.broken,
        } += 1;
        self.meter.current.failed += 1;
        self.clients[client as usize].since_ns = now_ns;
        self.return_or_stay_away(client, now_ns);
        self.settled_down(client, now_ns);
    }

    /// A client has lost its connection, for whatever reason.
    pub(super) fn gone_away(&mut self, client: u32, now_ns: u64) {
        let place = &mut self.clients[client as usize];
        if place.is_connected() {
            self.connected -= 1;
        }
        place.state = State::Away;
        place.since_ns = now_ns;
        place.out.clear();
        let (receiver, publisher) = (place.receiver, place.publisher);
        if let Some(receiver) = self.receivers.get_mut(receiver as usize) {
            receiver.went_away();
        }
        if let Some(publisher) = self.publishers.get_mut(publisher as usize) {
            publisher.disconnected(self.plan.groups[usize::from(self.clients[client as usize].group)].connect.clean);
        }
        self.settled_down(client, now_ns);
    }

    /// The broker has named another server (MQTT 5: 0x9C, 0x9D): the client connects there at once, if it is one of the
    /// target's.
    pub(super) fn on_sent_elsewhere(&mut self, client: u32, reference: &str, now_ns: u64) {
        let Some((host, port)) = reference.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)))
        else {
            return;
        };
        let Some(there) = self.plan.target.places().position(|place| place == (host, port)) else { return };
        let place = &mut self.clients[client as usize];
        if !place.is_connected() {
            return;
        }
        place.place = there as u16;
        let (connection, epoch) = (place.connection(client), place.epoch);
        self.books.connections.handed_over += 1;
        self.actions.push(Action::Cut(connection));
        self.gone_away(client, now_ns);
        self.timers.set(now_ns, Timer::Return { client, epoch });
    }

    fn return_or_stay_away(&mut self, client: u32, now_ns: u64) {
        let places = 1 + self.plan.target.others.len();
        let place = &mut self.clients[client as usize];
        place.place = ((usize::from(place.place) + 1) % places) as u16;
        let group = &self.plan.groups[usize::from(place.group)];
        match group.connect.reconnect_ms.filter(|_| self.phase != Phase::Leaving) {
            Some(after_ms) => {
                place.state = State::Away;
                self.timers.set(now_ns + after_ms * MILLI, Timer::Return { client, epoch: place.epoch });
            }
            None => place.state = State::Gone,
        }
    }

    pub(super) fn come_back(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &self.clients[client as usize];
        if place.epoch != epoch || !matches!(place.state, State::Away | State::Gone) || self.phase == Phase::Leaving {
            return;
        }
        self.note_absence(client, now_ns);
        // The connection before may not have ended yet as the network sees it.
        self.clients[client as usize].slot ^= 1;
        self.dial(client, now_ns);
    }

    pub(super) fn ping(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &mut self.clients[client as usize];
        if place.epoch != epoch || !place.is_connected() {
            return;
        }
        let group = &self.plan.groups[usize::from(place.group)];
        let keep_alive_ns = u64::from(group.connect.keep_alive_s) * 1_000 * MILLI;
        PingReq.encode(&mut place.out.bytes);
        self.timers.set(now_ns + keep_alive_ns / PINGS_PER_KEEP_ALIVE, Timer::Ping { client, epoch });
        self.touch(client);
    }

    /// Clients begin to leave.
    pub(super) fn leave(&mut self, now_ns: u64) {
        self.phase = Phase::Leaving;
        self.leave_next(now_ns);
    }

    pub(super) fn leave_next(&mut self, now_ns: u64) {
        let step = self.plan.teardown_per_second.map(|rate| (rate / self.plan.workers()).max(1));
        // Ten steps in a second are even enough.
        let end = step.map_or(self.clients.len(), |rate| self.next_to_leave + (rate as usize).div_ceil(10));
        for client in self.next_to_leave..end.min(self.clients.len()) {
            self.say_goodbye(client as u32);
        }
        self.next_to_leave = end.min(self.clients.len());
        if self.next_to_leave == self.clients.len() {
            self.phase = Phase::Over;
        } else {
            self.timers.set(now_ns + 100 * MILLI, Timer::Leave);
        }
    }

    /// A client disconnects as it should.
    pub(super) fn say_goodbye(&mut self, client: u32) {
        let place = &self.clients[client as usize];
        let connection = place.connection(client);
        match place.state {
            State::Waiting | State::Away | State::Gone => {}
            State::Dialling | State::Greeting => self.actions.push(Action::Cut(connection)),
            State::Subscribing | State::Ready => {
                self.connected -= 1;
                self.actions.push(Action::Close(connection));
            }
        }
        self.clients[client as usize].state = State::Gone;
    }
}

/// Puts the names into a template for names.
fn name(template: &str, group: &str, number: u32, seed: u64) -> String {
    let text = template.replace("{group}", group).replace("{run}", &format!("{:x}", seed & 0xFFFF_FFFF));
    crate::load::template::Template::new(&text).map_or_else(|_| text.clone(), |template| template.expand(number, 0))
}
