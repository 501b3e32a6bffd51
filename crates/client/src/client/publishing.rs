//! Messages to the server.

use std::time::Instant;

use tidegate_mqtt::{PacketType, PubAck, PubComp, PubRec, PubRel, QoS, ReasonCode};

use super::{Client, Phase};
use crate::outgoing::{InFlight, Resume, Stage};
use crate::publish::{Head, TopicForm};
use crate::{Event, ProtocolError, Publish, PublishError, PublishToken, Published, Undelivered, UndeliveredCause};

/// While more bytes than this wait for the transport, messages stay in the queue, where they are counted.
const OUTPUT_HIGH_WATER: usize = 256 << 10;

impl Client {
    /// Publishes a message, now or as soon as there is a connection and the server takes another one. The token
    /// comes back with [`Event::Published`] or [`Event::Undelivered`]. Messages are sent in the order of the calls.
    ///
    /// # Errors
    ///
    /// When too much is waiting already (see [`Client::has_room`]), or the message cannot be sent to this server.
    pub fn publish(&mut self, now: Instant, publish: Publish) -> Result<PublishToken, PublishError> {
        if !self.options.version.is_v5() && publish.needs_v5() {
            return Err(PublishError::NeedsV5);
        }
        if self.phase == Phase::Connected {
            self.server.check_publish(publish.qos, publish.retain, publish.topic_alias)?;
        }
        if !self.has_room() {
            return Err(PublishError::QueueFull);
        }
        let token = PublishToken(self.token());
        self.outgoing.enqueue(token, publish);
        self.send_waiting(now);
        Ok(token)
    }

    /// Whether [`Client::publish`] takes another message: fewer wait than [`Options`](crate::Options) allows.
    pub fn has_room(&self) -> bool {
        self.outgoing.queue_len() < self.options.max_queued_messages
            && self.outgoing.queued_bytes() < self.options.max_queued_bytes
    }

    /// Removes those of the `wanted` messages that were never sent. `wanted` is called for these alone, first to last.
    /// The removed messages cause no events.
    pub fn withdraw(&mut self, wanted: impl FnMut(PublishToken) -> bool) {
        self.outgoing.withdraw(wanted);
    }

    /// How many messages have been sent and wait for their acknowledgement.
    pub fn in_flight(&self) -> usize {
        self.outgoing.in_flight_len()
    }

    /// Whether every message has been sent and settled and every byte written.
    pub fn is_idle(&self) -> bool {
        self.outgoing.is_empty() && self.output.pending().is_empty()
    }

    /// Sends the messages to be repeated, then the queued ones, as far as the server and the transport accept them.
    pub(super) fn send_waiting(&mut self, now: Instant) {
        let window = usize::from(self.server.receive_maximum).min(usize::from(self.options.max_in_flight.get()));
        while self.phase == Phase::Connected && self.output.pending().len() < OUTPUT_HIGH_WATER {
            match self.outgoing.next_resume(window) {
                Some(resume) => self.send_again(now, resume),
                None if self.outgoing.is_resuming() => break,
                None if !self.send_next(now, window) => break,
                None => {}
            }
        }
    }

    fn send_again(&mut self, now: Instant, resume: Resume) {
        match resume {
            Resume::Release(packet_id) => {
                self.send_pubrel(now, PubRel::new(packet_id, ReasonCode::Success));
            }
            Resume::Publish(packet_id) => {
                let Some(entry) = self.outgoing.get(packet_id) else {
                    return;
                };
                let head = Head { packet_id: Some(packet_id), dup: true, topic: TopicForm::Text };
                let (version, max) = (self.options.version, self.server.maximum_packet_size);
                let publish = &entry.publish;
                let mut packet = Vec::new();
                let encoded = self
                    .server
                    .check_publish(publish.qos, publish.retain, None)
                    .and_then(|()| publish.encode(version, max, head, &mut packet));
                let sent = encoded.and_then(|()| {
                    self.send(now, |out| {
                        out.append(&mut packet);
                        Ok(())
                    })
                });
                if let Err(error) = sent
                    && let Some(entry) = self.settle(packet_id)
                {
                    self.undelivered(entry.token, Some(entry.publish), error.into());
                }
            }
        }
    }

    /// Sends the message at the front of the queue for the first time; false if the queue is empty or it has to wait.
    fn send_next(&mut self, now: Instant, window: usize) -> bool {
        let Some(front) = self.outgoing.front() else {
            return false;
        };
        let qos = front.qos;
        let packet_id = if qos == QoS::AtMostOnce {
            None
        } else if !self.outgoing.window_open(window) {
            return false;
        } else {
            if let Some(inherited) = self.inherited.as_mut().filter(|_| qos == QoS::ExactlyOnce) {
                let (is_free, releases) = inherited.prepare(&self.packet_ids);
                for packet_id in releases {
                    self.send_pubrel(now, PubRel::new(packet_id, ReasonCode::Success));
                }
                if !is_free {
                    return false;
                }
            }
            match self.packet_ids.allocate() {
                Some(packet_id) => Some(packet_id),
                None => return false,
            }
        };
        let Some((token, publish)) = self.outgoing.dequeue() else {
            return false;
        };
        let topic = self.outbound_aliases.form(&publish.topic, publish.topic_alias);
        let head = Head { packet_id, dup: false, topic };
        let (version, max) = (self.options.version, self.server.maximum_packet_size);
        let sent = self
            .server
            .check_publish(publish.qos, publish.retain, publish.topic_alias)
            .and_then(|()| self.send(now, |out| publish.encode(version, max, head, out)));
        match (sent, packet_id) {
            (Ok(()), Some(packet_id)) => {
                self.outbound_aliases.sent(&publish.topic, topic);
                self.outgoing.sent(packet_id, token, publish);
            }
            (Ok(()), None) => {
                self.outbound_aliases.sent(&publish.topic, topic);
                self.output.note_at_most_once(token);
            }
            (Err(error), packet_id) => {
                if let Some(packet_id) = packet_id {
                    self.packet_ids.release(packet_id);
                }
                self.undelivered(token, Some(publish), error.into());
            }
        }
        true
    }

    pub(super) fn handle_puback(&mut self, now: Instant, packet: &PubAck<'_>) -> Result<(), ProtocolError> {
        let Some(entry) = self.outgoing.get(packet.packet_id) else {
            // It may settle a message of a session that the client has given up.
            return Ok(());
        };
        if entry.publish.qos != QoS::AtLeastOnce {
            return Err(wrong(PacketType::PubAck, entry));
        }
        if let Some(entry) = self.settle(packet.packet_id) {
            self.settled(entry, packet.reason_code, packet.reason_string);
        }
        self.send_waiting(now);
        Ok(())
    }

    pub(super) fn handle_pubrec(&mut self, now: Instant, packet: &PubRec<'_>) -> Result<(), ProtocolError> {
        let Some(entry) = self.outgoing.get(packet.packet_id) else {
            let reason_code = ReasonCode::PacketIdentifierNotFound;
            self.send_pubrel(now, PubRel::new(packet.packet_id, reason_code));
            return Ok(());
        };
        if entry.publish.qos != QoS::ExactlyOnce {
            return Err(wrong(PacketType::PubRec, entry));
        }
        if packet.reason_code.is_error() {
            if entry.stage == Stage::Publish
                && let Some(entry) = self.settle(packet.packet_id)
            {
                self.settled(entry, packet.reason_code, packet.reason_string);
                self.send_waiting(now);
            }
            return Ok(());
        }
        self.outgoing.release(packet.packet_id);
        self.send_pubrel(now, PubRel::new(packet.packet_id, ReasonCode::Success));
        Ok(())
    }

    pub(super) fn handle_pubcomp(&mut self, now: Instant, packet: &PubComp<'_>) -> Result<(), ProtocolError> {
        let end = self.output.end();
        self.releases.answered(packet.packet_id, end);
        self.releases.written(now, self.output.written(), self.options.release_timeout);
        if self.inherited.as_mut().is_some_and(|inherited| inherited.answered(packet.packet_id)) {
            self.inherited.take_if(|inherited| inherited.is_over());
            self.send_waiting(now);
            return Ok(());
        }
        let Some(entry) = self.outgoing.get(packet.packet_id) else {
            return Ok(());
        };
        if entry.publish.qos != QoS::ExactlyOnce || entry.stage != Stage::Release {
            return Err(wrong(PacketType::PubComp, entry));
        }
        if let Some(entry) = self.settle(packet.packet_id) {
            // Whatever the code is, the server had taken the message over.
            self.settled(entry, ReasonCode::Success, packet.reason_string);
        }
        self.send_waiting(now);
        Ok(())
    }

    fn send_pubrel(&mut self, now: Instant, packet: PubRel<'_>) {
        let (version, max) = (self.options.version, self.server.maximum_packet_size);
        // With a server that takes no packet of four bytes the connection ends for want of an answer.
        let _ = self.send(now, |out| packet.encode_within(version, max, out));
        self.releases.sent(packet.packet_id, self.output.end());
        self.releases.written(now, self.output.written(), self.options.release_timeout);
    }

    fn settle(&mut self, packet_id: tidegate_mqtt::PacketId) -> Option<InFlight> {
        let entry = self.outgoing.settle(packet_id)?;
        self.packet_ids.release(packet_id);
        Some(entry)
    }

    fn settled(&mut self, entry: InFlight, reason_code: ReasonCode, reason: Option<&str>) {
        self.events.push_back(Event::Published(Published {
            token: entry.token,
            packet_id: Some(entry.packet_id),
            reason_code,
            reason_string: reason.map(str::to_owned),
            refused: reason_code.is_error().then(|| Box::new(entry.publish)),
        }));
    }

    /// A message of QoS 0 has been written.
    pub(super) fn published(&mut self, token: PublishToken) {
        self.events.push_back(Event::Published(Published {
            token,
            packet_id: None,
            reason_code: ReasonCode::Success,
            reason_string: None,
            refused: None,
        }));
    }

    fn undelivered(&mut self, token: PublishToken, publish: Option<Publish>, cause: UndeliveredCause) {
        self.events.push_back(Event::Undelivered(Box::new(Undelivered { token, publish, cause })));
    }
}

fn wrong(packet: PacketType, entry: &InFlight) -> ProtocolError {
    ProtocolError::WrongAcknowledgement { packet, packet_id: entry.packet_id }
}
