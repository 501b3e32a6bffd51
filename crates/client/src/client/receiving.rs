//! Messages from the server.

use std::time::Instant;

use tidegate_mqtt::{PubAck, PubComp, PubRec, PubRel, Publish as PublishPacket, ReasonCode};

use super::Client;
use super::wire::Wire;
use crate::aliases::InboundAliases;
use crate::incoming::{Acknowledge, Arrival, Arriving, Incoming, Window};
use crate::message::ConnectionNumber;
use crate::released::Digest;
use crate::{Acknowledgement, Delivery, Event, Message, MessageProperties, ProtocolError, TopicNameBuf};

impl Client {
    /// Acknowledges a message of QoS 1 or 2 to the server, which then forgets it; for [`Acknowledgement::Manual`].
    /// Acknowledgements are sent in the order in which the messages arrived, so one waits for the acknowledgements of
    /// earlier messages.
    pub fn acknowledge(&mut self, now: Instant, delivery: Delivery) {
        self.receiving.judge(now, delivery, ReasonCode::Success, &mut self.wire);
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
        pairs: ReceivedPairs,
        wire: &mut Wire,
    ) -> Result<(), ProtocolError> {
        // The alias is looked at first: it holds even if the message turns out to be known.
        let topic = packet.topic.map(TopicNameBuf::from);
        let topic = match (topic, packet.properties.topic_alias) {
            (topic, Some(alias)) => self.aliases.resolve(topic, alias)?,
            (Some(topic), None) => topic,
            (None, None) => return Err(tidegate_mqtt::DecodeError::MissingTopic.into()),
        };
        let Some(packet_id) = packet.packet_id else {
            deliver(topic, packet, pairs, None, wire);
            return Ok(());
        };
        let receive_maximum = if wire.options.version.is_v5() { wire.options.receive_maximum() } else { u16::MAX };
        let window = Window {
            receive_maximum: usize::from(receive_maximum),
            messages_beyond: usize::from(wire.options.max_messages_beyond),
            bytes_beyond: wire.options.max_bytes_beyond,
        };
        let before = self.incoming.beyond();
        let digest = wire.options.knows_released.then(|| Digest::of(packet, topic.as_str()));
        let (qos, dup, bytes) = (packet.qos, packet.dup, packet.payload.len());
        let arriving = Arriving { packet_id, qos, dup, bytes, digest };
        let arrival = self.incoming.arrive(arriving, self.connection, window);
        if self.incoming.beyond() > before {
            wire.push(Event::BeyondReceiveMaximum);
        }
        match arrival {
            Arrival::Deliver { position } => {
                let delivery = Delivery { packet_id, qos: packet.qos, connection: self.connection, position };
                deliver(topic, packet, pairs, Some(delivery), wire);
                if wire.options.acknowledgement == Acknowledgement::Automatic {
                    self.incoming.judge(delivery, ReasonCode::Success);
                }
            }
            Arrival::Known => {}
            Arrival::Received => send_pubrec(now, packet_id, wire),
            Arrival::TooMany => {
                return Err(ProtocolError::ReceiveMaximumExceeded { maximum: receive_maximum });
            }
        }
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
    topic: TopicNameBuf,
    packet: &PublishPacket<'_>,
    pairs: ReceivedPairs,
    delivery: Option<Delivery>,
    wire: &mut Wire,
) {
    let properties = &packet.properties;
    let subscription_identifiers = properties.subscription_identifiers.iter().collect();
    let properties = MessageProperties {
        payload_format: properties.payload_format,
        message_expiry: properties.message_expiry,
        content_type: properties.content_type.map(str::to_owned),
        response_topic: properties.response_topic.map(TopicNameBuf::from),
        correlation_data: properties.correlation_data.map(<[u8]>::to_vec),
        user_properties: pairs.others,
    };
    wire.push(Event::Message(Box::new(Message {
        topic,
        payload: packet.payload.to_vec(),
        qos: packet.qos,
        retain: packet.retain,
        dup: packet.dup,
        packet_id: packet.packet_id,
        properties,
        marked: pairs.marked,
        subscription_identifiers,
        topic_alias: packet.properties.topic_alias,
        delivery,
    })));
}

fn send_pubrec(now: Instant, packet_id: tidegate_mqtt::PacketId, wire: &mut Wire) {
    let (version, max) = wire.encoding();
    let packet = PubRec::new(packet_id, ReasonCode::Success);
    let _ = wire.send(now, |out| packet.encode_within(version, max, out));
}

/// The User Properties of a message: those with the name of the mark, and all others.
#[derive(Debug)]
pub(super) struct ReceivedPairs {
    mark: Option<&'static str>,
    /// The first value of the mark.
    marked: Option<String>,
    others: Vec<(String, String)>,
}

impl ReceivedPairs {
    pub(super) fn new(mark: Option<&'static str>) -> Self {
        Self { mark, marked: None, others: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        if self.mark != Some(name) {
            self.others.push((name.to_owned(), value.to_owned()));
        } else if self.marked.is_none() {
            self.marked = Some(value.to_owned());
        }
    }
}
