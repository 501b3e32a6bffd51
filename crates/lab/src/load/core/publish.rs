//! All publishers of a process: the times of their messages, the messages, and their outcomes.

use std::collections::HashMap;

use tidegate_mqtt::{PacketId, PubRel, PublishHead, QoS, ReasonCode};

use super::conclude::{StreamTotals, Totals};
use super::publisher::{InFlight, Publisher};
use super::receive::Settled;
use super::run::RunState;
use super::{Client, NONE, State};
use crate::load::chance::Chance;
use crate::load::plan::{Begin, Record, Size};
use crate::load::record;
use crate::load::schedule::Schedule;
use crate::load::stamp::{STAMP_LEN, Stamp};
use crate::load::timers::Timer;

/// Bytes of output above which a publisher waits until its connection has taken some.
const FULL: usize = 256 * 1024;
/// A closed loop treats messages in flight as lost when none has arrived for this long, in nanoseconds.
const LOST_AFTER_NS: u64 = 5_000_000_000;

/// The next action of a publisher.
enum Next {
    /// Send a message that was scheduled for this time.
    Send(u64),
    /// Wait for this time.
    At(u64),
    /// Wait for the broker.
    Wait,
    /// None: it has finished.
    Done,
}

/// The publishers of a process.
#[derive(Debug, Default)]
pub(super) struct Publishers {
    list: Vec<Publisher>,
    /// The publisher of this process of each stream, or `NONE`.
    owners: Vec<u32>,
    /// Publishers that may continue, since one of their messages has arrived.
    eager: Vec<u32>,
    /// Publishers that have messages to send.
    unfinished: u32,
    /// Messages that the broker has refused, by stream.
    refused: HashMap<u32, u32>,
    /// The filler of payloads, by group.
    fillers: Vec<Vec<u8>>,
    /// The document of the message that is being sent.
    document: Vec<u8>,
}

impl Publishers {
    /// An empty set of publishers, for a number of streams.
    pub(super) fn new(streams: u32, fillers: Vec<Vec<u8>>) -> Self {
        Self { owners: vec![NONE; streams as usize], fillers, ..Self::default() }
    }

    /// Adds a publisher and returns its number.
    pub(super) fn add(&mut self, publisher: Publisher) -> u32 {
        let number = self.list.len() as u32;
        for (_, stream) in publisher.streams() {
            self.owners[stream as usize] = number;
        }
        self.list.push(publisher);
        self.unfinished += 1;
        number
    }

    /// The publisher that a client is.
    pub(super) fn of(&mut self, client: &Client) -> Option<&mut Publisher> {
        self.list.get_mut(client.publisher as usize)
    }

    /// Whether the plan has publishers, of this process or another.
    pub(super) const fn has_streams(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Whether all publishers have sent all their messages.
    pub(super) const fn are_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Ends all publishers: they send no more messages.
    pub(super) fn stop(&mut self) {
        self.unfinished = 0;
    }

    /// Starts the publishers: all of them, or those with a ready client.
    pub(super) fn start_all(&mut self, run: &mut RunState, at_ns: u64) {
        for publisher in 0..self.list.len() as u32 {
            let client = self.list[publisher as usize].client;
            if run.plan.begin == Begin::WhenReady || run.clients[client].state == State::Ready {
                self.start(run, publisher, at_ns);
            }
        }
    }

    /// Messages of a stream are due to another subscriber of this process.
    pub(super) fn add_subscriber(&mut self, stream: u32) {
        let owner = self.owners.get(stream as usize);
        if let Some(publisher) = owner.and_then(|owner| self.list.get_mut(*owner as usize)) {
            publisher.fan += u64::from(stream == publisher.first_stream);
        }
    }

    /// A publisher's next message is due.
    pub(super) fn on_timer(&mut self, run: &mut RunState, publisher: u32, at_ns: u64, now_ns: u64) {
        let due = &mut self.list[publisher as usize];
        if !due.is_closed() {
            run.note_lag(at_ns, now_ns);
        }
        due.armed = false;
        self.pump(run, publisher, now_ns);
    }

    /// No more messages are scheduled: publishers without pending messages are done, and so are blocked ones.
    pub(super) fn end_time(&mut self, run: &mut RunState, now_ns: u64) {
        for publisher in 0..self.list.len() as u32 {
            let client = self.list[publisher as usize].client;
            match run.clients[client].state {
                State::Gone | State::Waiting => self.finish(publisher),
                _ => self.pump(run, publisher, now_ns),
            }
        }
    }

    /// Resumes publishers whose messages have returned.
    pub(super) fn turn(&mut self, run: &mut RunState, now_ns: u64) {
        let mut eager = std::mem::take(&mut self.eager);
        for publisher in eager.drain(..) {
            self.list[publisher as usize].eager = false;
            self.pump(run, publisher, now_ns);
        }
        if self.eager.is_empty() {
            self.eager = eager;
        }
    }

    /// Some deliveries of a stream need not be waited for any more.
    #[inline]
    pub(super) fn settle(&mut self, settled: Settled) {
        let Some(&owner) = self.owners.get(settled.stream as usize).filter(|owner| **owner != NONE) else { return };
        let publisher = &mut self.list[owner as usize];
        if publisher.is_closed() && !(settled.warm_up && publisher.sent > 0) {
            publisher.settled += settled.deliveries;
            self.encourage(owner);
        }
    }

    /// The messages sent on each stream of this process until a time.
    pub(super) fn totals(&mut self, until_ns: u64) -> Totals {
        let mut totals = Totals::new();
        for publisher in &mut self.list {
            publisher.offer_the_rest(until_ns);
            for (topic, stream) in publisher.streams() {
                let sent = publisher.share(publisher.sent, topic);
                let offered = publisher.share(publisher.offered, topic);
                let refused = self.refused.get(&stream).copied().unwrap_or_default();
                totals.insert(stream, StreamTotals { sent, offered, refused });
            }
        }
        totals
    }

    /// Messages of all publishers that wait for their acknowledgement.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.list.iter().map(|publisher| publisher.in_flight.len() as u64).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Publisher> {
        self.list.iter()
    }

    /// The client of this process that publishes a stream.
    pub(super) fn client_of(&self, stream: u32) -> Option<u32> {
        let owner = self.owners.get(stream as usize)?;
        self.list.get(*owner as usize).map(|publisher| publisher.client)
    }

    /// A publisher begins, if it has not.
    pub(super) fn start(&mut self, run: &mut RunState, publisher: u32, begin_ns: u64) {
        let place = &mut self.list[publisher as usize];
        if place.started {
            return;
        }
        place.started = true;
        let group = run.group_of(place.client);
        if let Some(publishing) = group.role.publishing() {
            let chance = Chance::of_part(place.chance.number(), u64::from(place.number));
            place.schedule = Schedule::of(publishing.pace, place.number, group.count, begin_ns, chance);
        }
        let first_ns = place.schedule.as_ref().map_or(begin_ns, Schedule::next_ns);
        self.arm(run, publisher, first_ns);
    }

    fn arm(&mut self, run: &mut RunState, publisher: u32, at_ns: u64) {
        let place = &mut self.list[publisher as usize];
        if !place.armed {
            place.armed = true;
            run.timers.set(at_ns, Timer::Publish(publisher));
        }
    }

    /// Notes an event that a publisher may have waited for.
    pub(super) fn encourage(&mut self, publisher: u32) {
        let place = &mut self.list[publisher as usize];
        if !place.eager && !place.done && place.started {
            place.eager = true;
            self.eager.push(publisher);
        }
    }

    /// A connection has taken its output: its publisher may go on.
    pub(super) fn drained(&mut self, publisher: u32) {
        if publisher != NONE && std::mem::take(&mut self.list[publisher as usize].crowded) {
            self.encourage(publisher);
        }
    }

    /// Whether publishers may go on at once.
    pub(super) fn is_eager(&self) -> bool {
        !self.eager.is_empty()
    }

    /// A publisher sends as many messages as allowed.
    pub(super) fn pump(&mut self, run: &mut RunState, publisher: u32, now_ns: u64) {
        if !self.list[publisher as usize].started {
            return;
        }
        loop {
            match self.next_step(run, publisher, now_ns) {
                Next::Send(scheduled_ns) => self.send(run, publisher, scheduled_ns),
                Next::At(at_ns) => return self.arm(run, publisher, at_ns),
                Next::Wait => return,
                Next::Done => return self.finish(publisher),
            }
        }
    }

    /// A publisher has sent all its messages.
    pub(super) fn finish(&mut self, publisher: u32) {
        if !std::mem::replace(&mut self.list[publisher as usize].done, true) {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
    }

    fn next_step(&mut self, run: &mut RunState, publisher: u32, now_ns: u64) -> Next {
        let place = &mut self.list[publisher as usize];
        let due_ns = place.schedule.as_ref().map_or(now_ns, Schedule::next_ns);
        if place.done || place.sent >= place.messages || due_ns >= run.times.measured_to {
            return Next::Done;
        }
        if due_ns > now_ns {
            return Next::At(due_ns);
        }
        let client = &run.clients[place.client];
        if client.state != State::Ready {
            // At the end of its time a closed loop is done, connected or not.
            return if place.window.is_some() { Next::At(run.times.measured_to) } else { Next::Wait };
        }
        place.crowded = client.out.len() >= FULL;
        if place.crowded || !place.may_send() {
            return Next::Wait;
        }
        if let Some(window) = place.window {
            if due_ns >= run.times.measured_from && place.warm_up_sent > 0 && place.sent == 0 {
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
        let place = &mut self.list[publisher as usize];
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
    fn send(&mut self, run: &mut RunState, publisher: u32, scheduled_ns: u64) {
        let place = &mut self.list[publisher as usize];
        let measured = scheduled_ns >= run.times.measured_from;
        let count = if measured { place.sent } else { place.warm_up_sent };
        let topic = (count % place.topics.len() as u64) as u32;
        let stamp = Stamp {
            mark: if measured { run.marks.measured } else { run.marks.warm_up },
            stream: place.first_stream + topic,
            sequence: (count / place.topics.len() as u64) as u32,
            scheduled_ns,
        };
        let size = match (place.record, place.size) {
            (Some(record), _) => {
                self.document.clear();
                record::write(record, place.number, stamp, &mut self.document);
                (stamp_len(record) + self.document.len()) as u32
            }
            (None, Size::Fixed(size)) => size,
            (None, Size::Uniform { min, max }) => min + place.chance.below(u64::from(max - min) + 1) as u32,
        };
        let mut message = InFlight { packet_id: None, stamp, topic, size, released: false };
        if place.qos != QoS::AtMostOnce {
            let Some(id) = place.free_id() else { return };
            place.last_id = id.get();
            message.packet_id = Some(id);
            place.in_flight.push_back(message);
        }
        if let Some(schedule) = &mut place.schedule {
            schedule.step();
        }
        place.in_window += 1;
        if measured {
            place.sent += 1;
            place.offered += 1;
            let group = usize::from(run.clients[place.client].group);
            let counts = &mut run.books.groups[group].counts;
            counts.sent += 1;
            counts.bytes_sent += u64::from(size);
        } else {
            place.warm_up_sent += 1;
            run.books.counts.warm_up += 1;
        }
        run.meter.current.sent += 1;
        self.encode(run, publisher, &message, false);
    }

    fn encode(&mut self, run: &mut RunState, publisher: u32, message: &InFlight, again: bool) {
        let place = &self.list[publisher as usize];
        let client = &mut run.clients[place.client];
        let head = PublishHead {
            version: run.version,
            dup: again,
            qos: place.qos,
            retain: place.retain,
            topic: &place.topics[message.topic as usize],
            packet_id: message.packet_id.map_or(0, PacketId::get),
            forwarded_properties: &[],
            message_expiry: place.expiry_s,
            topic_alias: None,
            subscription_identifiers: &[],
        };
        head.encode(message.size as usize, &mut client.out.bytes);
        if place.record.is_none_or(|record| !record.is_stamped()) {
            client.out.bytes.extend_from_slice(&message.stamp.to_bytes());
        }
        if let Some(record) = place.record {
            if again {
                self.document.clear();
                record::write(record, place.number, message.stamp, &mut self.document);
            }
            client.out.bytes.extend_from_slice(&self.document);
        } else {
            let filler = &self.fillers[usize::from(client.group)];
            client.out.bytes.extend_from_slice(&filler[..message.size as usize - STAMP_LEN]);
        }
        let client = place.client;
        run.clients.touch(client);
    }

    /// After a session has been resumed, unacknowledged messages are sent again [MQTT-4.4.0-1].
    pub(super) fn resend(&mut self, run: &mut RunState, publisher: u32) {
        let waiting: Vec<InFlight> = self.list[publisher as usize].in_flight.iter().copied().collect();
        for message in waiting {
            match message.packet_id {
                Some(packet_id) if message.released => release(run, self.list[publisher as usize].client, packet_id),
                _ => self.encode(run, publisher, &message, true),
            }
        }
    }

    pub(super) fn on_pubrec(&mut self, run: &mut RunState, client: u32, packet_id: PacketId) {
        let publisher = run.clients[client].publisher;
        if let Some(place) = self.list.get_mut(publisher as usize)
            && let Some(message) = place.in_flight.iter_mut().find(|message| message.packet_id == Some(packet_id))
        {
            message.released = true;
        }
        release(run, client, packet_id);
    }

    /// PUBACK, PUBCOMP, or a PUBREC with an error.
    pub(super) fn on_acknowledged(
        &mut self,
        run: &mut RunState,
        client: u32,
        packet_id: PacketId,
        code: ReasonCode,
        now_ns: u64,
    ) {
        let publisher = run.clients[client].publisher;
        let Some(place) = self.list.get_mut(publisher as usize) else { return };
        let Some(at) = place.in_flight.iter().position(|message| message.packet_id == Some(packet_id)) else { return };
        let Some(message) = place.in_flight.remove(at) else { return };
        run.meter.current.acknowledged += 1;
        run.one_less_outstanding();
        if message.stamp.mark == run.marks.measured {
            let group = usize::from(run.clients[client].group);
            if code.is_error() {
                run.books.groups[group].counts.refused += 1;
                *self.refused.entry(message.stamp.stream).or_default() += 1;
                // It has no receivers, so the window need not wait for it.
                place.settled += place.fan;
            } else {
                run.books.groups[group].counts.acknowledged += 1;
                run.books.acknowledgement.record(now_ns.saturating_sub(message.stamp.scheduled_ns));
            }
            if place.fan == 0 {
                run.books.last_ns = run.books.last_ns.max(now_ns);
            }
        }
        self.encourage(publisher);
    }
}

fn release(run: &mut RunState, client: u32, packet_id: PacketId) {
    let out = &mut run.clients[client].out.bytes;
    // Encoding cannot fail: the packet has a fixed content.
    let _ = PubRel::new(packet_id, ReasonCode::Success).encode(run.version, out);
    run.clients.touch(client);
}

/// Bytes of the stamp in front of a record.
const fn stamp_len(record: Record) -> usize {
    if record.is_stamped() { 0 } else { STAMP_LEN }
}
