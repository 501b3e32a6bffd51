//! Receivers: each message is counted, and forwarded by relays.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use tidegate_mqtt::{PacketId, PubAck, PubComp, PubRec, PublishHead, QoS, RawPublish, ReasonCode};

use super::conclude::{StreamTotals, Totals};
use super::run::RunState;
use super::work::{Work, encoding_of, work_of};
use super::{Client, MILLI, State};
use crate::load::directory::{Directory, filters_of, rewritten};
use crate::load::ledger::{Cause, Circumstances, Ledger, Missing, Receipt};
use crate::load::plan::{Begin, LoadPlan, Role, Subscribing};
use crate::load::record::recoded;
use crate::load::rounds::RoundBooks;
use crate::load::stamp::{Marks, STAMP_LEN, Stamp};
use crate::load::timers::Timer;

/// A client that receives, or all that share a subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver {
    /// The client; the first one of a shared subscription.
    pub(super) client: u32,
    /// Whether all messages are due to it, since it was subscribed before the first.
    pub(super) from_begin: bool,
    now: Circumstances,
}

impl Receiver {
    pub(super) fn new(subscribing: &Subscribing, client: u32) -> Self {
        let connected = if subscribing.slow.is_some() { Cause::Overflow } else { Cause::Unknown };
        let now = Circumstances { epoch: 0, connected, away: Cause::Disconnect };
        Self { client, from_begin: false, now }
    }
}

/// Deliveries of a stream that its publisher need not wait for any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) stream: u32,
    pub(super) deliveries: u64,
    /// Whether the messages belong to the warm-up.
    pub(super) warm_up: bool,
}

/// The stamp of a message of this run, before its payload or in its document.
fn stamp_of(payload: &[u8], marks: Marks) -> Option<Stamp> {
    let of_document = if payload.first() == Some(&b'{') { Stamp::of_document(payload) } else { None };
    let known = |stamp: Option<Stamp>| stamp.filter(|stamp| marks.knows(stamp.mark));
    known(of_document).or_else(|| known(Stamp::read(payload)))
}

/// The receivers of a process, and the messages that they have received.
pub(super) struct Receivers {
    list: Vec<Receiver>,
    directory: Directory,
    ledger: Ledger,
    /// How many messages a respondent has sent on each stream of its own, and the number of respondents by client.
    answered: HashMap<u32, u32>,
    respondents: HashMap<u32, u32>,
    /// Packet ids of QoS 2 that a client has received and that were not released.
    held: HashMap<u32, HashSet<u16>>,
    /// Round trips, by group, where they are asked for.
    rounds: Vec<Option<RoundBooks>>,
    /// Relays that have work to do with each message.
    at_work: HashMap<u32, Work>,
}

impl Receivers {
    /// No receivers yet.
    pub(super) fn new(directory: Directory, plan: &LoadPlan) -> Self {
        Self {
            list: Vec::new(),
            directory,
            ledger: Ledger::default(),
            answered: HashMap::new(),
            respondents: HashMap::new(),
            held: HashMap::new(),
            rounds: plan.groups.iter().map(|group| group.rounds.then(RoundBooks::default)).collect(),
            at_work: HashMap::new(),
        }
    }

    /// The number of the next receiver.
    pub(super) fn next(&self) -> u32 {
        self.list.len() as u32
    }

    pub(super) fn add(&mut self, receiver: Receiver) {
        self.list.push(receiver);
    }

    /// A client is a respondent with this number.
    pub(super) fn add_respondent(&mut self, client: u32, respondent: u32) {
        self.respondents.insert(client, respondent);
    }

    /// Whether a client of this process is a respondent.
    pub(super) fn has_respondents(&self) -> bool {
        !self.respondents.is_empty()
    }

    /// The streams of the plan.
    pub(super) const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The round trips of each group.
    pub(super) fn rounds(&self) -> &[Option<RoundBooks>] {
        &self.rounds
    }

    /// Notes the receivers of all messages: clients that subscribed before the first one. Calls `due` with each stream
    /// of such a receiver.
    pub(super) fn note_subscribed(&mut self, run: &RunState, mut due: impl FnMut(u32)) {
        if run.plan.begin != Begin::WhenReady {
            return;
        }
        let ready: HashSet<u32> =
            run.clients.iter().filter(|client| client.state == State::Ready).map(|client| client.receiver).collect();
        for receiver in (0..self.next()).filter(|receiver| ready.contains(receiver)) {
            self.list[receiver as usize].from_begin = true;
            for stream in self.streams_of(run, receiver).iter() {
                due(*stream);
            }
        }
    }

    /// A client has lost its connection.
    pub(super) fn went_away(&mut self, client: &Client) {
        if let Some(receiver) = self.list.get_mut(client.receiver as usize) {
            receiver.now.epoch += 1;
        }
    }

    /// A client has a new session: its packet ids of QoS 2 are free.
    pub(super) fn forget_packet_ids(&mut self, client: u32) {
        self.held.remove(&client);
    }

    /// Notes why messages went missing while a client was away.
    pub(super) fn note_absence(&mut self, run: &RunState, client: u32, now_ns: u64) {
        let place = &run.clients[client];
        let away_s = now_ns.saturating_sub(place.since_ns) / 1_000_000_000;
        let kept_s = run
            .plan
            .groups
            .iter()
            .filter_map(|group| group.role.publishing()?.expiry_s)
            .min()
            .map_or(u64::MAX, u64::from);
        if let Some(receiver) = self.list.get_mut(place.receiver as usize) {
            receiver.now.away = if away_s >= kept_s { Cause::Expiry } else { Cause::Disconnect };
        }
    }

    /// Acknowledges, counts and forwards a message; returns the message that its publisher need not wait for any more.
    pub(super) fn on_publish(
        &mut self,
        run: &mut RunState,
        client: u32,
        current: bool,
        publish: &RawPublish<'_>,
        now_ns: u64,
    ) -> Option<Settled> {
        if current && !self.answer(run, client, publish) {
            return None;
        }
        run.meter.current.received += 1;
        let group = usize::from(run.clients[client].group);
        let counts = &mut run.books.groups[group].counts;
        let Some(stamp) = stamp_of(publish.payload, run.marks) else {
            counts.foreign += 1;
            return None;
        };
        if publish.retain {
            counts.retained += 1;
            return None;
        }
        self.pass_on(run, client, publish, stamp, now_ns);
        if stamp.mark == run.marks.warm_up {
            return Some(Settled { stream: stamp.stream, deliveries: 1, warm_up: true });
        }
        let receiver = run.clients[client].receiver;
        let from = self.list.get(receiver as usize)?;
        let receipt = self.ledger.take(receiver, stamp.stream, stamp.sequence, from.from_begin, from.now);
        self.count(run, group, stamp, publish.payload.len(), receipt, now_ns)
    }

    /// Counts a measured message.
    #[inline]
    fn count(
        &mut self,
        run: &mut RunState,
        group: usize,
        stamp: Stamp,
        size: usize,
        receipt: Receipt,
        now_ns: u64,
    ) -> Option<Settled> {
        let books = &mut run.books.groups[group];
        let settled = match receipt {
            Receipt::Duplicate => {
                books.counts.duplicates += 1;
                return None;
            }
            Receipt::Reordered => {
                books.counts.reordered += 1;
                None
            }
            Receipt::New { missing } => {
                Some(Settled { stream: stamp.stream, deliveries: u64::from(missing) + 1, warm_up: false })
            }
        };
        let latency_ns = now_ns.saturating_sub(stamp.scheduled_ns);
        books.counts.received += 1;
        books.counts.bytes_received += size as u64;
        books.latency.record(latency_ns);
        run.meter.latency.record(latency_ns);
        if let Some(rounds) = &mut self.rounds[group] {
            rounds.record(stamp.stream, stamp.sequence, latency_ns);
        }
        if run.plan.deadline_ms.is_some_and(|deadline_ms| latency_ns > deadline_ms * MILLI) {
            books.counts.late += 1;
        }
        if !run.plan.groups[group].is_slow() {
            run.books.note_receipt(run.times.measured_from, now_ns);
            run.one_less_outstanding();
        }
        settled
    }

    /// Acknowledges a message; returns whether the client has not received it before (QoS 2).
    fn answer(&mut self, run: &mut RunState, client: u32, publish: &RawPublish<'_>) -> bool {
        let Some(packet_id) = publish.packet_id else { return true };
        let out = &mut run.clients[client].out.bytes;
        // Encoding cannot fail: the packets have a fixed content.
        let new = if publish.qos == QoS::ExactlyOnce {
            let _ = PubRec::new(packet_id, ReasonCode::Success).encode(run.version, out);
            self.held.entry(client).or_default().insert(packet_id.get())
        } else {
            let _ = PubAck::new(packet_id, ReasonCode::Success).encode(run.version, out);
            true
        };
        run.clients.touch(client);
        new
    }

    pub(super) fn on_pubrel(&mut self, run: &mut RunState, client: u32, packet_id: PacketId) {
        if let Some(held) = self.held.get_mut(&client) {
            held.remove(&packet_id.get());
        }
        let out = &mut run.clients[client].out.bytes;
        let _ = PubComp::new(packet_id, ReasonCode::Success).encode(run.version, out);
        run.clients.touch(client);
    }

    /// Relays and respondents publish received messages under another topic.
    fn pass_on(&mut self, run: &mut RunState, client: u32, publish: &RawPublish<'_>, stamp: Stamp, now_ns: u64) {
        let group = usize::from(run.clients[client].group);
        let (Role::Relay { from, to, qos, .. } | Role::Respondent { from, to, qos, .. }) = &run.plan.groups[group].role
        else {
            return;
        };
        let Some(topic) = std::str::from_utf8(publish.topic).ok().and_then(|topic| rewritten(topic, from, to)) else {
            return;
        };
        let mut passed = stamp;
        if let Some(respondent) = self.respondents.get(&client) {
            let Some(stream) =
                self.directory.answer(*respondent, stamp.stream).filter(|_| self.directory.is_primary(stamp.stream))
            else {
                return;
            };
            passed.stream = stream;
            if stamp.mark == run.marks.measured {
                let sequence = self.answered.entry(stream).or_default();
                passed.sequence = *sequence;
                *sequence += 1;
            }
        }
        let qos = QoS::from_bits(*qos).unwrap_or_default();
        let document = recoded(&publish.payload[STAMP_LEN..], encoding_of(&run.plan.groups[group].role));
        if stamp.mark == run.marks.measured {
            let counts = &mut run.books.groups[group].counts;
            counts.passed_on += 1;
            counts.bytes_passed_on += (STAMP_LEN + document.len()) as u64;
        }
        let place = &mut run.clients[client];
        let packet_id = if qos == QoS::AtMostOnce { 0 } else { place.next_relayed_id() };
        let head = PublishHead {
            version: run.version,
            dup: false,
            qos,
            retain: false,
            topic: &topic,
            packet_id,
            forwarded_properties: &[],
            message_expiry: None,
            topic_alias: None,
            subscription_identifiers: &[],
        };
        let work_us = work_of(&run.plan.groups[group].role);
        let out = if work_us == 0 {
            &mut place.out.bytes
        } else {
            self.at_work.entry(client).or_default().message(place.epoch)
        };
        head.encode(STAMP_LEN + document.len(), out);
        out.extend_from_slice(&passed.to_bytes());
        out.extend_from_slice(&document);
        if work_us > 0 {
            self.begin_work(run, client, work_us, now_ns);
            return;
        }
        run.meter.current.sent += 1;
        run.clients.touch(client);
    }

    /// The message that was put in last is worked on when those before it are done.
    fn begin_work(&mut self, run: &mut RunState, client: u32, work_us: u32, now_ns: u64) {
        let Some(work) = self.at_work.get_mut(&client) else { return };
        work.busy_until_ns = work.busy_until_ns.max(now_ns) + u64::from(work_us) * 1_000;
        run.timers.set(work.busy_until_ns, Timer::Worked { client });
    }

    /// A message is done. One from a connection that has ended since is lost, as in a program that has ended.
    pub(super) fn worked(&mut self, run: &mut RunState, client: u32) {
        let Some((epoch, message)) = self.at_work.get_mut(&client).and_then(|work| work.messages.pop_front()) else {
            return;
        };
        let place = &mut run.clients[client];
        if place.epoch != epoch || !place.is_connected() {
            return;
        }
        place.out.bytes.extend_from_slice(&message);
        run.meter.current.sent += 1;
        run.clients.touch(client);
    }

    /// The streams whose messages are due to a receiver.
    fn streams_of(&mut self, run: &RunState, receiver: u32) -> Rc<[u32]> {
        let client = self.list[receiver as usize].client;
        let Some(subscribing) = run.subscribing(client) else { return Rc::new([]) };
        let filters = filters_of(subscribing, run.clients[client].number).unwrap_or_default();
        if let [filter] = filters.as_slice() {
            return self.directory.streams(filter);
        }
        let mut streams: Vec<u32> = Vec::new();
        for filter in &filters {
            streams.extend(self.directory.streams(filter).iter());
        }
        streams.sort_unstable();
        streams.dedup();
        streams.into()
    }

    /// Visits all messages due to a receiver of this process, by the receiver's client.
    pub(super) fn each_due(
        &mut self,
        run: &RunState,
        totals: &Totals,
        mut look: impl FnMut(u32, u64, Missing, StreamTotals),
    ) {
        for receiver in 0..self.list.len() as u32 {
            let Receiver { client, from_begin, now } = self.list[receiver as usize];
            for stream in self.streams_of(run, receiver).iter() {
                let mut total = totals.get(stream).copied().unwrap_or_default();
                if let Some(answered) = self.answered.get(stream) {
                    total = StreamTotals { sent: *answered, offered: *answered, refused: 0 };
                }
                if let Some(track) = self.ledger.track(receiver, *stream) {
                    look(client, track.due(total.sent), track.missing(total.sent, now), total);
                } else if from_begin {
                    let mut missing = Missing::default();
                    let cause = if now.epoch == 0 { now.connected } else { now.away };
                    missing.add(cause, u64::from(total.sent));
                    look(client, u64::from(total.sent), missing, total);
                }
            }
        }
    }
}
