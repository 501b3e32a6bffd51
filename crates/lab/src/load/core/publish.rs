//! Publishers: the times of their messages, the messages, and their outcomes.

use std::collections::VecDeque;

use tidegate_mqtt::{PacketId, PubRel, PublishHead, QoS, ReasonCode};

use super::{Core, NONE, State};
use crate::load::chance::Chance;
use crate::load::plan::{Pace, Publishing, Record, Size};
use crate::load::record;
use crate::load::schedule::Schedule;
use crate::load::stamp::{STAMP_LEN, Stamp};
use crate::load::template::Template;
use crate::load::timers::Timer;

/// Bytes of output above which a publisher waits until its connection has taken some.
const FULL: usize = 256 * 1024;
/// Packet ids that a client has.
const MOST_IN_FLIGHT: u32 = 65_535;
/// A closed loop treats messages in flight as lost when none has arrived for this long, in nanoseconds.
const LOST_AFTER_NS: u64 = 5_000_000_000;

/// A message that waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    packet_id: PacketId,
    stamp: Stamp,
    topic: u32,
    size: u32,
    /// Whether PUBREC has come and PUBREL is sent.
    released: bool,
}

/// A client that publishes.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Publisher {
    pub(super) client: u32,
    /// Its number in its group.
    number: u32,
    pub(super) first_stream: u32,
    topics: Box<[Box<str>]>,
    qos: QoS,
    retain: bool,
    expiry_s: Option<u32>,
    size: Size,
    record: Option<Record>,
    chance: Chance,
    /// The window of a closed loop.
    window: Option<u64>,
    schedule: Option<Schedule>,
    /// Measured messages it may send, at most.
    pub(super) messages: u64,
    pub(super) offered: u64,
    pub(super) sent: u64,
    warm_up_sent: u64,
    in_flight: VecDeque<InFlight>,
    last_id: u16,
    /// Messages that the broker takes at a time.
    limit: u32,
    /// Subscribers of this process that its messages are due to.
    pub(super) fan: u64,
    /// Messages under way or settled since the window was last opened, and deliveries among them that are settled.
    in_window: u64,
    pub(super) settled: u64,
    /// The number of settled messages when the window became full, and the time.
    full: Option<(u64, u64)>,
    /// Whether it waits for its connection to take some output.
    crowded: bool,
    started: bool,
    done: bool,
    /// Whether a timer is set for it.
    pub(super) armed: bool,
    /// Whether it is in the list of publishers that may continue.
    pub(super) eager: bool,
}

/// The next action of a publisher.
enum Next {
    /// Send a message that was scheduled for this time.
    Send(u64),
    /// Wait for this time.
    At(u64),
    /// Wait for the broker.
    Wait,
    /// None: it is done.
    Done,
}

impl Publisher {
    pub(super) fn new(
        publishing: &Publishing,
        client: u32,
        number: u32,
        first_stream: u32,
        chance: Chance,
    ) -> Result<Self, String> {
        let template = Template::new(&publishing.topics.pattern)?;
        let topics = (0..publishing.topics.count).map(|topic| template.expand(number, topic).into());
        Ok(Self {
            client,
            number,
            first_stream,
            topics: topics.collect(),
            qos: QoS::from_bits(publishing.qos).unwrap_or_default(),
            retain: publishing.retain,
            expiry_s: publishing.expiry_s,
            size: publishing.payload.size,
            record: publishing.payload.record,
            chance,
            window: match publishing.pace {
                Pace::Closed { window } => Some(u64::from(window)),
                Pace::Open { .. } => None,
            },
            schedule: None,
            messages: publishing.messages.unwrap_or(u64::MAX),
            offered: 0,
            sent: 0,
            warm_up_sent: 0,
            in_flight: VecDeque::new(),
            last_id: 0,
            limit: MOST_IN_FLIGHT,
            fan: 0,
            in_window: 0,
            settled: 0,
            full: None,
            crowded: false,
            started: false,
            done: false,
            armed: false,
            eager: false,
        })
    }

    /// The broker has accepted it, and takes so many messages at a time.
    pub(super) fn connected(&mut self, receive_maximum: Option<u16>, session_present: bool) {
        self.limit = receive_maximum.map_or(MOST_IN_FLIGHT, u32::from);
        if !session_present {
            self.in_flight.clear();
        }
    }

    /// It has lost its connection.
    pub(super) fn disconnected(&mut self, clean: bool) {
        if clean {
            self.in_flight.clear();
        }
        self.armed = false;
    }

    /// Measured messages sent on one of its streams: its topics take turns.
    pub(super) fn share(&self, messages: u64, topic: u32) -> u32 {
        let count = self.topics.len() as u64;
        (messages / count + u64::from(messages % count > u64::from(topic))) as u32
    }

    /// Whether the broker sets its pace.
    pub(super) const fn is_closed(&self) -> bool {
        self.window.is_some()
    }

    /// Counts the messages that were scheduled until then and not sent.
    pub(super) fn offer_the_rest(&mut self, until_ns: u64) {
        let Some(schedule) = &mut self.schedule else { return };
        while schedule.next_ns() < until_ns && self.offered < self.messages {
            schedule.step();
            self.offered += 1;
        }
    }

    /// Its streams.
    pub(super) fn streams(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let first = self.first_stream;
        (0..self.topics.len() as u32).map(move |topic| (topic, first + topic))
    }

    /// Messages that wait for their acknowledgement.
    pub(super) fn unacknowledged(&self) -> usize {
        self.in_flight.len()
    }

    /// The packet id of the next message; `None` while a message has it that the broker has not acknowledged.
    fn free_id(&self) -> Option<PacketId> {
        let next = PacketId::new(self.last_id).map_or(PacketId::MIN, PacketId::next);
        // Ids are given in turn, so the oldest message is the first that could have it.
        (self.in_flight.front().map(|oldest| oldest.packet_id) != Some(next)).then_some(next)
    }

    fn may_send(&self) -> bool {
        self.qos == QoS::AtMostOnce || (self.in_flight.len() < self.limit as usize && self.free_id().is_some())
    }

    /// Whether the window of a closed loop has no room.
    fn is_full(&self, window: u64) -> bool {
        let received = self.settled.checked_div(self.fan).unwrap_or(self.in_window);
        let waiting = if self.qos == QoS::AtMostOnce { 0 } else { self.in_flight.len() as u64 };
        self.in_window.saturating_sub(received).max(waiting) >= window
    }
}

impl Core {
    /// A publisher begins, if it has not.
    pub(super) fn start(&mut self, publisher: u32, begin_ns: u64) {
        let place = &mut self.publishers[publisher as usize];
        if place.started {
            return;
        }
        place.started = true;
        let group = &self.plan.groups[usize::from(self.clients[place.client as usize].group)];
        if let Some(publishing) = crate::load::directory::publishing(&group.role) {
            let chance = Chance::of_part(place.chance.number(), u64::from(place.number));
            place.schedule = Schedule::of(publishing.pace, place.number, group.count, begin_ns, chance);
        }
        let first_ns = place.schedule.as_ref().map_or(begin_ns, Schedule::next_ns);
        self.arm(publisher, first_ns);
    }

    fn arm(&mut self, publisher: u32, at_ns: u64) {
        let place = &mut self.publishers[publisher as usize];
        if !place.armed {
            place.armed = true;
            self.timers.set(at_ns, Timer::Publish(publisher));
        }
    }

    /// Notes an event that a publisher may have waited for.
    pub(super) fn encourage(&mut self, publisher: u32) {
        let place = &mut self.publishers[publisher as usize];
        if !place.eager && !place.done && place.started {
            place.eager = true;
            self.eager.push(publisher);
        }
    }

    /// A connection has taken its output: its publisher may go on.
    pub(crate) fn drained(&mut self, connection: u32) {
        let publisher = self.clients[(connection / 2) as usize].publisher;
        if publisher != NONE && std::mem::take(&mut self.publishers[publisher as usize].crowded) {
            self.encourage(publisher);
        }
    }

    /// Whether publishers may go on at once.
    pub(crate) fn is_eager(&self) -> bool {
        !self.eager.is_empty()
    }

    /// Whether a connection has to be written to again soon, so that its memory is kept.
    pub(crate) fn writes_often(&self, connection: u32) -> bool {
        self.clients[(connection / 2) as usize].publisher != NONE
    }

    /// A publisher sends as many messages as allowed.
    pub(super) fn pump(&mut self, publisher: u32, now_ns: u64) {
        if !self.publishers[publisher as usize].started {
            return;
        }
        loop {
            match self.next_step(publisher, now_ns) {
                Next::Send(scheduled_ns) => self.send(publisher, scheduled_ns),
                Next::At(at_ns) => return self.arm(publisher, at_ns),
                Next::Wait => return,
                Next::Done => return self.finish(publisher),
            }
        }
    }

    /// A publisher has sent all its messages.
    pub(super) fn finish(&mut self, publisher: u32) {
        if !std::mem::replace(&mut self.publishers[publisher as usize].done, true) {
            self.publishing = self.publishing.saturating_sub(1);
        }
    }

    fn next_step(&mut self, publisher: u32, now_ns: u64) -> Next {
        let place = &mut self.publishers[publisher as usize];
        let due_ns = place.schedule.as_ref().map_or(now_ns, Schedule::next_ns);
        if place.done || place.sent >= place.messages || due_ns >= self.times.measured_to {
            return Next::Done;
        }
        if due_ns > now_ns {
            return Next::At(due_ns);
        }
        let client = &self.clients[place.client as usize];
        if client.state != State::Ready {
            // At the end of its time a closed loop is done, connected or not.
            return if place.window.is_some() { Next::At(self.times.measured_to) } else { Next::Wait };
        }
        place.crowded = client.out.len() >= FULL;
        if place.crowded || !place.may_send() {
            return Next::Wait;
        }
        if let Some(window) = place.window {
            if due_ns >= self.times.measured_from && place.warm_up_sent > 0 && place.sent == 0 {
                // Messages of the warm-up are no longer awaited.
                (place.in_window, place.settled) = (0, 0);
                place.warm_up_sent = 0;
            }
            if place.is_full(window) {
                return self.wait_in_window(publisher, now_ns);
            }
        }
        Next::Send(due_ns)
    }

    /// A closed loop waits, but not for ever for lost messages.
    fn wait_in_window(&mut self, publisher: u32, now_ns: u64) -> Next {
        let place = &mut self.publishers[publisher as usize];
        let since_ns = match place.full {
            Some((settled, since_ns)) if settled == place.settled => since_ns,
            _ => now_ns,
        };
        if now_ns >= since_ns + LOST_AFTER_NS && place.in_flight.is_empty() {
            place.settled = place.in_window * place.fan;
            place.full = None;
            return Next::Send(now_ns);
        }
        place.full = Some((place.settled, since_ns));
        if place.armed {
            return Next::Wait;
        }
        let alarm_ns = since_ns + LOST_AFTER_NS;
        Next::At(if alarm_ns > now_ns { alarm_ns } else { now_ns + LOST_AFTER_NS })
    }

    /// Encodes a message.
    fn send(&mut self, publisher: u32, scheduled_ns: u64) {
        let place = &mut self.publishers[publisher as usize];
        let measured = scheduled_ns >= self.times.measured_from;
        let count = if measured { place.sent } else { place.warm_up_sent };
        let topic = (count % place.topics.len() as u64) as u32;
        let stamp = Stamp {
            mark: if measured { self.marks.measured } else { self.marks.warm_up },
            stream: place.first_stream + topic,
            sequence: (count / place.topics.len() as u64) as u32,
            scheduled_ns,
        };
        let size = match (place.record, place.size) {
            (Some(record), _) => {
                self.document.clear();
                record::write(record, place.number, stamp, &mut self.document);
                (STAMP_LEN + self.document.len()) as u32
            }
            (None, Size::Fixed(size)) => size,
            (None, Size::Uniform { min, max }) => min + place.chance.below(u64::from(max - min) + 1) as u32,
        };
        let mut packet_id = None;
        if place.qos != QoS::AtMostOnce {
            let Some(id) = place.free_id() else { return };
            place.last_id = id.get();
            place.in_flight.push_back(InFlight { packet_id: id, stamp, topic, size, released: false });
            packet_id = Some(id);
        }
        if let Some(schedule) = &mut place.schedule {
            schedule.step();
        }
        place.in_window += 1;
        if measured {
            place.sent += 1;
            place.offered += 1;
            let group = usize::from(self.clients[place.client as usize].group);
            let counts = &mut self.books.groups[group].counts;
            counts.sent += 1;
            counts.bytes_sent += u64::from(size);
        } else {
            place.warm_up_sent += 1;
            self.books.counts.warm_up += 1;
        }
        self.meter.current.sent += 1;
        self.encode(publisher, stamp, topic, size, packet_id, false);
    }

    fn encode(
        &mut self,
        publisher: u32,
        stamp: Stamp,
        topic: u32,
        size: u32,
        packet_id: Option<PacketId>,
        again: bool,
    ) {
        let place = &self.publishers[publisher as usize];
        let client = &mut self.clients[place.client as usize];
        let head = PublishHead {
            version: self.version,
            dup: again,
            qos: place.qos,
            retain: place.retain,
            topic: &place.topics[topic as usize],
            packet_id: packet_id.map_or(0, PacketId::get),
            forwarded_properties: &[],
            message_expiry: place.expiry_s,
            topic_alias: None,
            subscription_identifiers: &[],
        };
        head.encode(size as usize, &mut client.out.bytes);
        client.out.bytes.extend_from_slice(&stamp.to_bytes());
        if let Some(record) = place.record {
            if again {
                self.document.clear();
                record::write(record, place.number, stamp, &mut self.document);
            }
            client.out.bytes.extend_from_slice(&self.document);
        } else {
            let filler = &self.fillers[usize::from(client.group)];
            client.out.bytes.extend_from_slice(&filler[..size as usize - STAMP_LEN]);
        }
        let client = place.client;
        self.touch(client);
    }

    /// After a session has been resumed, unacknowledged messages are sent again [MQTT-4.4.0-1].
    pub(super) fn resend(&mut self, publisher: u32) {
        let waiting: Vec<InFlight> = self.publishers[publisher as usize].in_flight.iter().copied().collect();
        for message in waiting {
            if message.released {
                self.release(self.publishers[publisher as usize].client, message.packet_id);
            } else {
                self.encode(publisher, message.stamp, message.topic, message.size, Some(message.packet_id), true);
            }
        }
    }

    fn release(&mut self, client: u32, packet_id: PacketId) {
        let out = &mut self.clients[client as usize].out.bytes;
        // Encoding cannot fail: the packet has a fixed content.
        let _ = PubRel::new(packet_id, ReasonCode::Success).encode(self.version, out);
        self.touch(client);
    }

    pub(super) fn on_pubrec(&mut self, client: u32, packet_id: PacketId) {
        let publisher = self.clients[client as usize].publisher;
        if let Some(place) = self.publishers.get_mut(publisher as usize)
            && let Some(message) = place.in_flight.iter_mut().find(|message| message.packet_id == packet_id)
        {
            message.released = true;
        }
        self.release(client, packet_id);
    }

    /// PUBACK, PUBCOMP, or a PUBREC that says no.
    pub(super) fn on_acknowledged(&mut self, client: u32, packet_id: PacketId, code: ReasonCode, now_ns: u64) {
        let publisher = self.clients[client as usize].publisher;
        let Some(place) = self.publishers.get_mut(publisher as usize) else { return };
        let Some(at) = place.in_flight.iter().position(|message| message.packet_id == packet_id) else { return };
        let Some(message) = place.in_flight.remove(at) else { return };
        self.meter.current.acknowledged += 1;
        if let Some(outstanding) = &mut self.outstanding {
            *outstanding = outstanding.saturating_sub(1);
        }
        if message.stamp.mark == self.marks.measured {
            let group = usize::from(self.clients[client as usize].group);
            if code.is_error() {
                self.books.groups[group].counts.refused += 1;
                *self.refused.entry(message.stamp.stream).or_default() += 1;
                // It has no receivers, so the window need not wait for it.
                place.settled += place.fan;
            } else {
                self.books.groups[group].counts.acknowledged += 1;
                self.books.acknowledgement.record(now_ns.saturating_sub(message.stamp.scheduled_ns));
            }
            if place.fan == 0 {
                self.books.last_ns = self.books.last_ns.max(now_ns);
            }
        }
        self.encourage(publisher);
    }
}
