//! Receivers: each message is counted, and forwarded by relays.

use tidegate_mqtt::{PacketId, PubAck, PubComp, PubRec, PublishHead, QoS, RawPublish, ReasonCode};

use super::work::{encoding_of, work_of};
use super::{Action, Core, NONE, Phase};
use crate::load::directory::{publishing, rewritten, subscribing};
use crate::load::ledger::{Cause, Circumstances, Receipt};
use crate::load::plan::{Role, Subscribing};
use crate::load::record::recoded;
use crate::load::stamp::{STAMP_LEN, Stamp};
use crate::load::timers::Timer;

/// A client that receives, or all that share a subscription.
#[derive(Debug)]
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

    /// It has lost its connection.
    pub(super) fn went_away(&mut self) {
        self.now.epoch += 1;
    }

    /// Its own current state.
    pub(super) fn circumstances(&self) -> Circumstances {
        self.now
    }
}

impl Core {
    /// Notes why messages went missing while a client was away.
    pub(super) fn note_absence(&mut self, client: u32, now_ns: u64) {
        let place = &self.clients[client as usize];
        let away_s = now_ns.saturating_sub(place.since_ns) / 1_000_000_000;
        let kept_s = self
            .plan
            .groups
            .iter()
            .filter_map(|group| publishing(&group.role)?.expiry_s)
            .min()
            .map_or(u64::MAX, u64::from);
        if let Some(receiver) = self.receivers.get_mut(place.receiver as usize) {
            receiver.now.away = if away_s >= kept_s { Cause::Expiry } else { Cause::Disconnect };
        }
    }

    pub(super) fn on_publish(&mut self, client: u32, current: bool, publish: &RawPublish<'_>, now_ns: u64) {
        if current && !self.answer(client, publish) {
            return;
        }
        self.meter.current.received += 1;
        let group = usize::from(self.clients[client as usize].group);
        let counts = &mut self.books.groups[group].counts;
        let Some(stamp) = Stamp::read(publish.payload).filter(|stamp| self.marks.knows(stamp.mark)) else {
            counts.foreign += 1;
            return;
        };
        if publish.retain {
            counts.retained += 1;
            return;
        }
        self.pass_on(client, publish, stamp, now_ns);
        if stamp.mark == self.marks.warm_up {
            self.settle(stamp.stream, 1, true);
            return;
        }
        let receiver = self.clients[client as usize].receiver;
        let Some(place) = self.receivers.get(receiver as usize) else { return };
        let receipt = self.ledger.take(receiver, stamp.stream, stamp.sequence, place.from_begin, place.now);
        self.put_in_the_books(group, stamp, publish.payload.len(), receipt, now_ns);
    }

    #[inline]
    fn put_in_the_books(&mut self, group: usize, stamp: Stamp, size: usize, receipt: Receipt, now_ns: u64) {
        let books = &mut self.books.groups[group];
        match receipt {
            Receipt::Duplicate => {
                books.counts.duplicates += 1;
                return;
            }
            Receipt::Reordered => books.counts.reordered += 1,
            Receipt::New { missing } => self.settle(stamp.stream, u64::from(missing) + 1, false),
        }
        let books = &mut self.books.groups[group];
        let latency_ns = now_ns.saturating_sub(stamp.scheduled_ns);
        books.counts.received += 1;
        books.counts.bytes_received += size as u64;
        books.latency.record(latency_ns);
        self.meter.latency.record(latency_ns);
        if let Some(rounds) = &mut self.rounds[group] {
            rounds.record(stamp.stream, stamp.sequence, latency_ns);
        }
        if self.plan.deadline_ms.is_some_and(|deadline_ms| latency_ns > deadline_ms * 1_000_000) {
            books.counts.late += 1;
        }
        if self.plan.groups[group].is_slow() {
            return;
        }
        self.books.note_receipt(self.times.measured_from, now_ns);
        if let Some(outstanding) = &mut self.outstanding {
            *outstanding = outstanding.saturating_sub(1);
        }
    }

    /// So many deliveries of a stream need not be waited for any more.
    #[inline]
    fn settle(&mut self, stream: u32, deliveries: u64, warm_up: bool) {
        let Some(&owner) = self.owners.get(stream as usize).filter(|owner| **owner != NONE) else { return };
        let publisher = &mut self.publishers[owner as usize];
        if publisher.is_closed() && !(warm_up && publisher.sent > 0) {
            publisher.settled += deliveries;
            self.encourage(owner);
        }
    }

    /// Acknowledges a message; returns whether the client has not received it before (QoS 2).
    fn answer(&mut self, client: u32, publish: &RawPublish<'_>) -> bool {
        let Some(packet_id) = publish.packet_id else { return true };
        let out = &mut self.clients[client as usize].out.bytes;
        // Encoding cannot fail: the packets have a fixed content.
        let new = if publish.qos == QoS::ExactlyOnce {
            let _ = PubRec::new(packet_id, ReasonCode::Success).encode(self.version, out);
            self.held.entry(client).or_default().insert(packet_id.get())
        } else {
            let _ = PubAck::new(packet_id, ReasonCode::Success).encode(self.version, out);
            true
        };
        self.touch(client);
        new
    }

    pub(super) fn on_pubrel(&mut self, client: u32, packet_id: PacketId) {
        if let Some(held) = self.held.get_mut(&client) {
            held.remove(&packet_id.get());
        }
        let out = &mut self.clients[client as usize].out.bytes;
        let _ = PubComp::new(packet_id, ReasonCode::Success).encode(self.version, out);
        self.touch(client);
    }

    /// Relays and respondents publish received messages under another topic.
    fn pass_on(&mut self, client: u32, publish: &RawPublish<'_>, stamp: Stamp, now_ns: u64) {
        let group = usize::from(self.clients[client as usize].group);
        let (Role::Relay { from, to, qos, .. } | Role::Respondent { from, to, qos, .. }) =
            &self.plan.groups[group].role
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
            if stamp.mark == self.marks.measured {
                let sequence = self.answered.entry(stream).or_default();
                passed.sequence = *sequence;
                *sequence += 1;
            }
        }
        let qos = QoS::from_bits(*qos).unwrap_or_default();
        let document = recoded(&publish.payload[STAMP_LEN..], encoding_of(&self.plan.groups[group].role));
        if stamp.mark == self.marks.measured {
            let counts = &mut self.books.groups[group].counts;
            counts.passed_on += 1;
            counts.bytes_passed_on += (STAMP_LEN + document.len()) as u64;
        }
        let place = &mut self.clients[client as usize];
        let packet_id = if qos == QoS::AtMostOnce { 0 } else { place.next_relayed_id() };
        let head = PublishHead {
            version: self.version,
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
        let work_us = work_of(&self.plan.groups[group].role);
        let out = if work_us == 0 {
            &mut place.out.bytes
        } else {
            self.at_work.entry(client).or_default().message(place.epoch)
        };
        head.encode(STAMP_LEN + document.len(), out);
        out.extend_from_slice(&passed.to_bytes());
        out.extend_from_slice(&document);
        if work_us > 0 {
            self.begin_work(client, work_us, now_ns);
            return;
        }
        self.meter.current.sent += 1;
        self.touch(client);
    }

    pub(super) fn read_slowly(&mut self, client: u32, epoch: u32, now_ns: u64) {
        let place = &self.clients[client as usize];
        if place.epoch != epoch || !place.is_connected() || self.phase == Phase::Leaving {
            return;
        }
        let role = &self.plan.groups[usize::from(place.group)].role;
        let Some(slow) = subscribing(role).and_then(|subscribing| subscribing.slow) else { return };
        self.actions.push(Action::Read(place.connection(client), slow.bytes as usize));
        self.timers.set(now_ns + slow.every_ms * 1_000_000, Timer::Read { client, epoch });
    }
}
