//! Messages from the server.

use std::time::Instant;

use tidegate_mqtt::{
    PubAck, PubComp, PubRec, PubRel, Publish as PublishPacket, RawPublish, ReasonCode, TopicError, TopicName,
};

use super::Client;
use super::wire::Wire;
use crate::aliases::InboundAliases;
use crate::incoming::{Acknowledge, Arrival, Arriving, Incoming, Window};
use crate::message::ConnectionNumber;
use crate::released::Digest;
use crate::{
    Acknowledgement, Delivery, Event, Message, MessageProperties, ProtocolError, SentAfterRelease, TopicNameBuf,
};

impl Client {
    /// Acknowledges a message of QoS 1 or 2 to the server, which then forgets it; for [`Acknowledgement::Manual`].
    /// Acknowledgements are sent in the order in which the messages arrived, so one waits for the acknowledgements of
    /// earlier messages.
    pub fn acknowledge(&mut self, now: Instant, delivery: Delivery) {
        self.receiving.judge(now, delivery, ReasonCode::Success, &mut self.wire);
    }

    /// Acknowledges many messages, as [`Self::acknowledge`] does each, and sends all acknowledgements behind the last one.
    pub fn acknowledge_all(&mut self, now: Instant, deliveries: impl IntoIterator<Item = Delivery>) {
        for delivery in deliveries {
            self.receiving.incoming.judge(delivery, ReasonCode::Success);
        }
        self.receiving.send_acknowledgements(now, &mut self.wire);
    }

    /// Refuses a message of QoS 1 or 2; for [`Acknowledgement::Manual`]. The server forgets it nevertheless. A
    /// `reason_code` below 0x80, or a code that a PUBACK cannot carry, counts as [`ReasonCode::UnspecifiedError`].
    /// Before MQTT 5.0 the server is not informed of the refusal.
    pub fn refuse(&mut self, now: Instant, delivery: Delivery, reason_code: ReasonCode) {
        let fits = reason_code.is_error()
            && reason_code.allowed_in(tidegate_mqtt::PacketType::PubAck)
            && reason_code.allowed_in(tidegate_mqtt::PacketType::PubRec);
        let reason_code = match (self.wire.options.version.is_v5(), fits) {
            (false, _) => ReasonCode::Success,
            (true, true) => reason_code,
            (true, false) => ReasonCode::UnspecifiedError,
        };
        self.receiving.judge(now, delivery, reason_code, &mut self.wire);
    }

    /// Takes back a message that its owner has read: the next ones use its memory. It does not acknowledge the message.
    pub fn reuse(&mut self, message: Box<Message>) {
        self.wire.spares.put(message);
    }
}

/// Owns the messages from the server that are not acknowledged to the end.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) incoming: Incoming,
    pub(super) aliases: InboundAliases,
    pub(super) connection: ConnectionNumber,
}

impl Default for Receiving {
    fn default() -> Self {
        Self { incoming: Incoming::default(), aliases: InboundAliases::new(0), connection: ConnectionNumber::default() }
    }
}

impl Receiving {
    pub(super) fn judge(&mut self, now: Instant, delivery: Delivery, reason: ReasonCode, wire: &mut Wire) {
        self.incoming.judge(delivery, reason);
        self.send_acknowledgements(now, wire);
    }

    fn send_acknowledgements(&mut self, now: Instant, wire: &mut Wire) {
        let (version, max) = wire.encoding();
        while wire.is_connected()
            && let Some(due) = self.incoming.next_acknowledgement()
        {
            // A server that takes no packet of five bytes is left waiting.
            let _ = wire.send(now, |out| match due {
                Acknowledge::AtLeastOnce(packet_id, code) => {
                    PubAck::new(packet_id, code).encode_within(version, max, out)
                }
                Acknowledge::ExactlyOnce(packet_id, code) => {
                    PubRec::new(packet_id, code).encode_within(version, max, out)
                }
            });
        }
    }

    pub(super) fn handle_publish(
        &mut self,
        now: Instant,
        packet: &PublishPacket<'_>,
        pairs: ReceivedPairs<'_>,
        wire: &mut Wire,
    ) -> Result<(), ProtocolError> {
        // The alias is looked at first: it holds even if the message turns out to be known.
        let resolve = |alias| self.aliases.resolve(packet.topic.map(TopicNameBuf::from), alias);
        let aliased = packet.properties.topic_alias.map(resolve).transpose()?;
        let topic = aliased.as_ref().map(TopicNameBuf::as_str).or(packet.topic.map(TopicName::as_str));
        let topic = topic.ok_or(tidegate_mqtt::DecodeError::MissingTopic)?;
        let Some(packet_id) = packet.packet_id else {
            deliver(topic, packet, pairs, None, wire);
            return Ok(());
        };
        let recognises = wire.options.sent_after_release == SentAfterRelease::Known;
        let digest = recognises.then(|| Digest::of(packet, topic));
        let (qos, dup, bytes) = (packet.qos, packet.dup, packet.payload.len());
        if let Some(delivery) = self.arrive(now, Arriving { packet_id, qos, dup, bytes, digest }, wire)? {
            deliver(topic, packet, pairs, Some(delivery), wire);
            if wire.options.acknowledgement == Acknowledgement::Automatic {
                self.incoming.judge(delivery, ReasonCode::Success);
            }
        }
        self.send_acknowledgements(now, wire);
        Ok(())
    }

    /// Takes a message above QoS 0; returns how its owner acknowledges it if it is new.
    fn arrive(&mut self, now: Instant, arriving: Arriving, wire: &mut Wire) -> Result<Option<Delivery>, ProtocolError> {
        let receive_maximum = if wire.options.version.is_v5() { wire.options.receive_maximum() } else { u16::MAX };
        let window = Window {
            receive_maximum: usize::from(receive_maximum),
            messages_beyond: usize::from(wire.options.max_messages_beyond),
            bytes_beyond: wire.options.max_bytes_beyond,
        };
        let Arriving { packet_id, qos, .. } = arriving;
        let before = self.incoming.beyond();
        let arrival = self.incoming.arrive(arriving, self.connection, window);
        if self.incoming.beyond() > before {
            wire.push(Event::BeyondReceiveMaximum);
        }
        match arrival {
            Arrival::Deliver { position } => {
                Ok(Some(Delivery { packet_id, qos, connection: self.connection, position }))
            }
            Arrival::Known => Ok(None),
            Arrival::Received => {
                send_pubrec(now, packet_id, wire);
                Ok(None)
            }
            Arrival::TooMany => Err(ProtocolError::ReceiveMaximumExceeded { maximum: receive_maximum }),
        }
    }

    /// Acknowledges a message to an invalid topic, which its owner does not get. The server would send it again on each
    /// connection.
    pub(super) fn pass_over(
        &mut self,
        now: Instant,
        raw: &RawPublish<'_>,
        error: TopicError,
        wire: &mut Wire,
    ) -> Result<(), ProtocolError> {
        if let Some(packet_id) = raw.packet_id {
            let (qos, dup, bytes) = (raw.qos, raw.dup, raw.payload.len());
            let arriving = Arriving { packet_id, qos, dup, bytes, digest: None };
            if let Some(delivery) = self.arrive(now, arriving, wire)? {
                self.incoming.judge(delivery, ReasonCode::Success);
            }
        }
        wire.push(Event::InvalidTopic(error));
        self.send_acknowledgements(now, wire);
        Ok(())
    }

    pub(super) fn handle_pubrel(&mut self, now: Instant, packet: &PubRel<'_>, wire: &mut Wire) {
        let reason_code = if self.incoming.release(packet.packet_id) {
            ReasonCode::Success
        } else {
            ReasonCode::PacketIdentifierNotFound
        };
        let (version, max) = wire.encoding();
        let packet = PubComp::new(packet.packet_id, reason_code);
        let _ = wire.send(now, |out| packet.encode_within(version, max, out));
    }
}

fn deliver(
    topic: &str,
    packet: &PublishPacket<'_>,
    pairs: ReceivedPairs<'_>,
    delivery: Option<Delivery>,
    wire: &mut Wire,
) {
    let mut message = wire.spares.take();
    // By name, so that none is forgotten: the message may have been another one.
    let Message {
        topic: own_topic,
        payload,
        qos,
        retain,
        dup,
        packet_id,
        properties,
        marked,
        subscription_identifiers,
        topic_alias,
        delivery: own_delivery,
    } = &mut *message;
    own_topic.set_checked(topic);
    payload.clear();
    payload.extend_from_slice(packet.payload);
    (*qos, *retain, *dup, *packet_id) = (packet.qos, packet.retain, packet.dup, packet.packet_id);
    *properties = MessageProperties {
        payload_format: packet.properties.payload_format,
        message_expiry: packet.properties.message_expiry,
        content_type: packet.properties.content_type.map(str::to_owned),
        response_topic: packet.properties.response_topic.map(TopicNameBuf::from),
        correlation_data: packet.properties.correlation_data.map(<[u8]>::to_vec),
        user_properties: pairs.others,
    };
    *subscription_identifiers = packet.properties.subscription_identifiers.iter().collect();
    (*topic_alias, *own_delivery) = (packet.properties.topic_alias, delivery);
    match pairs.marked {
        Some(value) => value.clone_into(marked.get_or_insert_default()),
        None => *marked = None,
    }
    wire.push(Event::Message(message));
}

fn send_pubrec(now: Instant, packet_id: tidegate_mqtt::PacketId, wire: &mut Wire) {
    let (version, max) = wire.encoding();
    let packet = PubRec::new(packet_id, ReasonCode::Success);
    let _ = wire.send(now, |out| packet.encode_within(version, max, out));
}

/// The User Properties of a message: those with the name of the mark, and all others.
#[derive(Debug)]
pub(super) struct ReceivedPairs<'a> {
    mark: Option<&'static str>,
    /// The first value of the mark.
    marked: Option<&'a str>,
    others: Vec<(String, String)>,
}

impl<'a> ReceivedPairs<'a> {
    pub(super) fn new(mark: Option<&'static str>) -> Self {
        Self { mark, marked: None, others: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &str, value: &'a str) {
        if self.mark != Some(name) {
            self.others.push((name.to_owned(), value.to_owned()));
        } else if self.marked.is_none() {
            self.marked = Some(value);
        }
    }
}
