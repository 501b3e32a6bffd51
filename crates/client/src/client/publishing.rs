//! Messages to the server.

use std::time::Instant;

use tidegate_mqtt::{PacketId, PacketType, PubAck, PubComp, PubRec, PubRel, QoS, ReasonCode};

use super::Client;
use super::wire::Wire;
use crate::aliases::OutboundAliases;
use crate::inherited::Inherited;
use crate::outgoing::{InFlight, Outgoing, Resume, Stage};
use crate::packet_ids::PacketIds;
use crate::publish::{Head, TopicForm};
use crate::releases::Releases;
use crate::{Event, ProtocolError, Publish, PublishError, PublishToken, Published, Undelivered, UndeliveredCause};

/// While more bytes than this wait for the transport, messages stay in the queue, where they are counted.
const OUTPUT_HIGH_WATER: usize = 256 << 10;

impl Client {
    /// Publishes a message, now or as soon as there is a connection and the server takes another one. The token
    /// returns with [`Event::Published`] or [`Event::Undelivered`]. Messages are sent in the order of the calls.
    ///
    /// # Errors
    ///
    /// When too much is waiting already (see [`Client::has_room`]), or the message cannot be sent to this server.
    pub fn publish(&mut self, now: Instant, publish: Publish) -> Result<PublishToken, PublishError> {
        if !self.wire.options.version.is_v5() && publish.needs_v5() {
            return Err(PublishError::NeedsV5);
        }
        if self.wire.is_connected() {
            self.wire.server.check_publish(publish.qos, publish.retain, publish.topic_alias)?;
        }
        if !self.has_room() {
            return Err(PublishError::QueueFull);
        }
        let token = PublishToken(self.tokens.next());
        self.sending.outgoing.enqueue(token, publish);
        self.send_waiting(now);
        Ok(token)
    }

    /// Whether [`Client::publish`] takes another message: fewer wait than [`Options`](crate::Options) allows.
    pub fn has_room(&self) -> bool {
        self.sending.outgoing.queue_len() < self.wire.options.max_queued_messages
            && self.sending.outgoing.queued_bytes() < self.wire.options.max_queued_bytes
    }

    /// Removes the `wanted` messages that were never sent. `wanted` is called for unsent messages alone, first to last.
    /// The removed messages cause no events.
    pub fn withdraw(&mut self, wanted: impl FnMut(PublishToken) -> bool) {
        self.sending.outgoing.withdraw(wanted);
    }

    /// How many messages have been sent and wait for their acknowledgement.
    pub fn in_flight(&self) -> usize {
        self.sending.outgoing.in_flight_len()
    }

    /// Whether every message has been sent and settled and every byte written.
    pub fn is_idle(&self) -> bool {
        self.sending.outgoing.is_empty() && self.wire.output.pending().is_empty()
    }

    /// Sends the messages to be repeated, then the queued ones, as far as the server and the transport accept them.
    pub(super) fn send_waiting(&mut self, now: Instant) {
        self.sending.send_waiting(now, &mut self.packet_ids, &mut self.wire);
    }
}

/// Owns the messages to the server, and the state of their delivery.
#[derive(Debug, Default)]
pub(super) struct Sending {
    pub(super) outgoing: Outgoing,
    pub(super) aliases: OutboundAliases,
    /// Set while the server's session is older than this client.
    pub(super) inherited: Option<Inherited>,
    pub(super) releases: Releases,
}

impl Sending {
    /// The transport has written bytes.
    pub(super) fn written(&mut self, now: Instant, wire: &mut Wire) {
        while let Some(token) = wire.output.pop_written() {
            wire.push(Event::Published(Published {
                token,
                packet_id: None,
                reason_code: ReasonCode::Success,
                reason_string: None,
                refused: None,
            }));
        }
        self.releases.written(now, wire.output.written(), wire.options.release_timeout);
    }

    /// When the answer to a PUBREL is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.releases.deadline()
    }

    /// The PUBREL whose answer is overdue.
    pub(super) fn overdue(&self, now: Instant) -> Option<PacketId> {
        self.releases.overdue(now)
    }

    /// Sends the messages to be repeated, then the queued ones, as far as the server and the transport accept them.
    pub(super) fn send_waiting(&mut self, now: Instant, packet_ids: &mut PacketIds, wire: &mut Wire) {
        let window = usize::from(wire.server.receive_maximum).min(usize::from(wire.options.max_in_flight.get()));
        while wire.is_connected() && wire.output.pending().len() < OUTPUT_HIGH_WATER {
            match self.outgoing.next_resume(window) {
                Some(resume) => self.send_again(now, resume, packet_ids, wire),
                None if self.outgoing.is_resuming() => break,
                None if !self.send_next(now, window, packet_ids, wire) => break,
                None => {}
            }
        }
    }

    fn send_again(&mut self, now: Instant, resume: Resume, packet_ids: &mut PacketIds, wire: &mut Wire) {
        match resume {
            Resume::Release(packet_id) => {
                send_pubrel(now, PubRel::new(packet_id, ReasonCode::Success), &mut self.releases, wire);
            }
            Resume::Publish(packet_id) => {
                let Some(entry) = self.outgoing.get(packet_id) else {
                    return;
                };
                let head = Head { packet_id: Some(packet_id), dup: true, topic: TopicForm::Text };
                let (version, max) = wire.encoding();
                let publish = &entry.publish;
                let mut packet = Vec::new();
                let encoded = wire
                    .server
                    .check_publish(publish.qos, publish.retain, None)
                    .and_then(|()| publish.encode(version, max, head, &mut packet));
                let sent = encoded.and_then(|()| {
                    wire.send(now, |out| {
                        out.append(&mut packet);
                        Ok(())
                    })
                });
                if let Err(error) = sent
                    && let Some(entry) = self.settle(packet_id, packet_ids)
                {
                    undelivered(entry.token, Some(entry.publish), error.into(), wire);
                }
            }
        }
    }

    /// Sends the message at the front of the queue for the first time; false if the queue is empty or it has to wait.
    fn send_next(&mut self, now: Instant, window: usize, packet_ids: &mut PacketIds, wire: &mut Wire) -> bool {
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
                let (is_free, releases) = inherited.prepare(packet_ids);
                for packet_id in releases {
                    send_pubrel(now, PubRel::new(packet_id, ReasonCode::Success), &mut self.releases, wire);
                }
                if !is_free {
                    return false;
                }
            }
            match packet_ids.allocate() {
                Some(packet_id) => Some(packet_id),
                None => return false,
            }
        };
        let Some((token, publish)) = self.outgoing.dequeue() else {
            return false;
        };
        let topic = self.aliases.form(&publish.topic, publish.topic_alias);
        let head = Head { packet_id, dup: false, topic };
        let (version, max) = wire.encoding();
        let sent = wire
            .server
            .check_publish(publish.qos, publish.retain, publish.topic_alias)
            .and_then(|()| wire.send(now, |out| publish.encode(version, max, head, out)));
        match (sent, packet_id) {
            (Ok(()), Some(packet_id)) => {
                self.aliases.sent(&publish.topic, topic);
                self.outgoing.sent(packet_id, token, publish);
            }
            (Ok(()), None) => {
                self.aliases.sent(&publish.topic, topic);
                wire.output.note_at_most_once(token);
            }
            (Err(error), packet_id) => {
                if let Some(packet_id) = packet_id {
                    packet_ids.release(packet_id);
                }
                undelivered(token, Some(publish), error.into(), wire);
            }
        }
        true
    }

    pub(super) fn handle_puback(
        &mut self,
        packet: &PubAck<'_>,
        packet_ids: &mut PacketIds,
        wire: &mut Wire,
    ) -> Result<bool, ProtocolError> {
        let Some(entry) = self.outgoing.get(packet.packet_id) else {
            // It may settle a message of a session that the client has given up.
            return Ok(false);
        };
        if entry.publish.qos != QoS::AtLeastOnce {
            return Err(wrong(PacketType::PubAck, entry));
        }
        if let Some(entry) = self.settle(packet.packet_id, packet_ids) {
            settled(entry, packet.reason_code, packet.reason_string, wire);
        }
        Ok(true)
    }

    pub(super) fn handle_pubrec(
        &mut self,
        now: Instant,
        packet: &PubRec<'_>,
        packet_ids: &mut PacketIds,
        wire: &mut Wire,
    ) -> Result<bool, ProtocolError> {
        let Some(entry) = self.outgoing.get(packet.packet_id) else {
            let reason_code = ReasonCode::PacketIdentifierNotFound;
            send_pubrel(now, PubRel::new(packet.packet_id, reason_code), &mut self.releases, wire);
            return Ok(false);
        };
        if entry.publish.qos != QoS::ExactlyOnce {
            return Err(wrong(PacketType::PubRec, entry));
        }
        if packet.reason_code.is_error() {
            if entry.stage == Stage::Publish
                && let Some(entry) = self.settle(packet.packet_id, packet_ids)
            {
                settled(entry, packet.reason_code, packet.reason_string, wire);
                return Ok(true);
            }
            return Ok(false);
        }
        self.outgoing.release(packet.packet_id);
        send_pubrel(now, PubRel::new(packet.packet_id, ReasonCode::Success), &mut self.releases, wire);
        Ok(false)
    }

    pub(super) fn handle_pubcomp(
        &mut self,
        now: Instant,
        packet: &PubComp<'_>,
        packet_ids: &mut PacketIds,
        wire: &mut Wire,
    ) -> Result<bool, ProtocolError> {
        let end = wire.output.end();
        self.releases.answered(packet.packet_id, end);
        self.releases.written(now, wire.output.written(), wire.options.release_timeout);
        if self.inherited.as_mut().is_some_and(|inherited| inherited.answered(packet.packet_id)) {
            self.inherited.take_if(|inherited| inherited.is_over());
            return Ok(true);
        }
        let Some(entry) = self.outgoing.get(packet.packet_id) else {
            return Ok(false);
        };
        if entry.publish.qos != QoS::ExactlyOnce || entry.stage != Stage::Release {
            return Err(wrong(PacketType::PubComp, entry));
        }
        if let Some(entry) = self.settle(packet.packet_id, packet_ids) {
            // Whatever the code is, the server had taken the message over.
            settled(entry, ReasonCode::Success, packet.reason_string, wire);
        }
        Ok(true)
    }

    fn settle(&mut self, packet_id: PacketId, packet_ids: &mut PacketIds) -> Option<InFlight> {
        let entry = self.outgoing.settle(packet_id)?;
        packet_ids.release(packet_id);
        Some(entry)
    }
}

fn send_pubrel(now: Instant, packet: PubRel<'_>, releases: &mut Releases, wire: &mut Wire) {
    let (version, max) = wire.encoding();
    // With a server that takes no packet of four bytes the connection ends for want of an answer.
    let _ = wire.send(now, |out| packet.encode_within(version, max, out));
    releases.sent(packet.packet_id, wire.output.end());
    releases.written(now, wire.output.written(), wire.options.release_timeout);
}

fn settled(entry: InFlight, reason_code: ReasonCode, reason: Option<&str>, wire: &mut Wire) {
    wire.push(Event::Published(Published {
        token: entry.token,
        packet_id: Some(entry.packet_id),
        reason_code,
        reason_string: reason.map(str::to_owned),
        refused: reason_code.is_error().then(|| Box::new(entry.publish)),
    }));
}

fn undelivered(token: PublishToken, publish: Option<Publish>, cause: UndeliveredCause, wire: &mut Wire) {
    wire.push(Event::Undelivered(Box::new(Undelivered { token, publish, cause })));
}

fn wrong(packet: PacketType, entry: &InFlight) -> ProtocolError {
    ProtocolError::WrongAcknowledgement { packet, packet_id: entry.packet_id }
}
