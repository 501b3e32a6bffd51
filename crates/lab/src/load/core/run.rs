//! The state of a run that connections, publishers and receivers share.

use std::rc::Rc;

use tidegate_mqtt::{PingReq, QoS, Subscribe, SubscriptionOptions, Subscriptions, TopicFilter, Version};

use super::clients::Clients;
use super::connect::{PINGS_PER_KEEP_ALIVE, SUBSCRIBE_ID};
use super::meter::Meter;
use super::{Action, MILLI, Phase, State, Times};
use crate::load::directory::filters_of;
use crate::load::outcome::{LoadOutcome, Second};
use crate::load::plan::{ClientGroup, LoadPlan, Subscribing};
use crate::load::stamp::Marks;
use crate::load::timers::{Timer, Timers};

/// The state of a run that connections, publishers and receivers share.
pub(super) struct RunState {
    pub(super) plan: Rc<LoadPlan>,
    pub(super) version: Version,
    pub(super) marks: Marks,
    pub(super) clients: Clients,
    pub(super) timers: Timers,
    pub(super) phase: Phase,
    pub(super) times: Times,
    pub(super) books: LoadOutcome,
    pub(super) meter: Meter,
    /// Deliveries and acknowledgements that are still due, once it is known how many there are.
    pub(super) outstanding: Option<u64>,
}

impl RunState {
    /// The group of a client.
    pub(super) fn group_of(&self, client: u32) -> &ClientGroup {
        &self.plan.groups[usize::from(self.clients[client].group)]
    }

    /// The subscriptions of a client.
    pub(super) fn subscribing(&self, client: u32) -> Option<&Subscribing> {
        self.group_of(client).role.subscribing()
    }

    /// Whether a connection is read on request only: a slow reader is quick until it has subscribed.
    pub(super) fn reads_on_request(&self, connection: u32) -> bool {
        self.clients[connection / 2].state == State::Ready
            && self.subscribing(connection / 2).is_some_and(|subscribing| subscribing.slow.is_some())
    }

    /// The time until which publishers may send the messages scheduled before the end.
    pub(super) fn sending_ends_ns(&self) -> u64 {
        self.times.measured_to.saturating_add(self.plan.drain_ms * MILLI)
    }

    /// The time after which missing messages count as lost.
    pub(super) fn drain_ends_ns(&self) -> u64 {
        self.books.last_ns.max(self.times.measured_to).saturating_add(self.plan.drain_ms * MILLI)
    }

    /// The next deadline.
    pub(super) fn next_timer_ns(&self) -> Option<u64> {
        let phase_ends = match self.phase {
            Phase::Publishing => Some(self.sending_ends_ns()),
            Phase::Draining => Some(self.drain_ends_ns()),
            Phase::Gathering | Phase::Leaving | Phase::Over => None,
        };
        [self.timers.next_ns(), phase_ends].into_iter().flatten().min()
    }

    /// Records how late the generator itself is with a message.
    pub(super) fn note_lag(&mut self, at_ns: u64, now_ns: u64) {
        let lag_ns = now_ns - at_ns;
        self.meter.current.lag_ns = self.meter.current.lag_ns.max(lag_ns);
        if (self.times.measured_from..self.times.measured_to).contains(&at_ns) {
            self.books.generator.lag.record(lag_ns);
        }
    }

    /// One delivery or acknowledgement less is due.
    #[inline]
    pub(super) fn one_less_outstanding(&mut self) {
        if let Some(outstanding) = &mut self.outstanding {
            *outstanding = outstanding.saturating_sub(1);
        }
    }

    /// Ends a second; returns its numbers.
    pub(super) fn end_second(&mut self, cpu_ns: u64) -> Second {
        let second = self.meter.end_second(self.clients.connected, cpu_ns);
        self.books.series.push(second);
        second
    }

    /// Records how many clients are connected to each of several addresses.
    pub(super) fn note_addresses(&mut self) {
        if !self.plan.target.others.is_empty() {
            self.books.connections.at_places = self.clients.connected_by_address(1 + self.plan.target.others.len());
        }
    }

    /// Opens a connection for a client.
    pub(super) fn dial(&mut self, client: u32, now_ns: u64) {
        let dialling = &mut self.clients[client];
        dialling.epoch += 1;
        dialling.state = State::Dialling;
        dialling.since_ns = now_ns;
        dialling.out.clear();
        let (connection, epoch) = (dialling.connection(client), dialling.epoch);
        self.books.connections.dialled += 1;
        self.clients.request(Action::Dial(connection));
        self.timers.set(now_ns + self.plan.connect_timeout_ms * MILLI, Timer::Timeout { client, epoch });
    }

    /// Sends the SUBSCRIBE of a client; returns whether it could be encoded.
    pub(super) fn subscribe(&mut self, client: u32, now_ns: u64) -> bool {
        let place = &mut self.clients[client];
        let Some(subscribing) = self.plan.groups[usize::from(place.group)].role.subscribing() else { return true };
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
        let encoded = subscribe.encode(self.version, &mut place.out.bytes).is_ok();
        if !encoded {
            self.books.connections.subscriptions_refused += filters.len() as u64;
        }
        self.clients.touch(client);
        encoded
    }

    /// Sends PINGREQ, and sets the time of the next one.
    pub(super) fn ping(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &mut self.clients[client];
        if place.epoch != epoch || !place.is_connected() {
            return;
        }
        let group = &self.plan.groups[usize::from(place.group)];
        let keep_alive_ns = u64::from(group.connect.keep_alive_s) * 1_000 * MILLI;
        PingReq.encode(&mut place.out.bytes);
        self.timers.set(now_ns + keep_alive_ns / PINGS_PER_KEEP_ALIVE, Timer::Ping { client, epoch });
        self.clients.touch(client);
    }

    /// A client without a connection takes the next address, and returns if its group does.
    pub(super) fn return_or_stay_away(&mut self, client: u32, now_ns: u64) {
        let addresses = 1 + self.plan.target.others.len();
        let place = &mut self.clients[client];
        place.place = ((usize::from(place.place) + 1) % addresses) as u16;
        let group = &self.plan.groups[usize::from(place.group)];
        match group.connect.reconnect_ms.filter(|_| self.phase != Phase::Leaving) {
            Some(after_ms) => {
                place.state = State::Away;
                self.timers.set(now_ns + after_ms * MILLI, Timer::Return { client, epoch: place.epoch });
            }
            None => place.state = State::Gone,
        }
    }

    /// A slow client reads some bytes, and sets the time of the next ones.
    pub(super) fn read_slowly(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &self.clients[client];
        if place.epoch != epoch || !place.is_connected() || self.phase == Phase::Leaving {
            return;
        }
        let connection = place.connection(client);
        let Some(slow) = self.subscribing(client).and_then(|subscribing| subscribing.slow) else { return };
        self.clients.request(Action::Read(connection, slow.bytes as usize));
        self.timers.set(now_ns + slow.every_ms * MILLI, Timer::Read { client, epoch });
    }
}
