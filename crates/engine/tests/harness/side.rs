//! The client's end of one connection: it decodes packets, answers them if automatic, and checks that the server may
//! send them.

use std::collections::{BTreeMap, VecDeque};

use tidegate_mqtt::{
    MAX_PACKET_SIZE, Packet, PacketId, PacketType, PubAck, PubComp, PubRec, PubRel, Publish, QoS, ReasonCode, Version,
    split_frame,
};

use super::{Arrival, Connecting};

/// An answer to something that the client published: which packet, to which id, with which code.
pub(crate) type Answered = (PacketType, PacketId, ReasonCode);

#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub version: Version,
    pub client_id: String,
    automatic: bool,
    receive_maximum: usize,
    max_packet: usize,
    alias_maximum: u16,
    buffer: Vec<u8>,
    /// Packets for the test, in their order.
    pub arrivals: VecDeque<Arrival>,
    /// Answers to publishes, where the client answers automatically.
    pub answered: VecDeque<Answered>,
    aliases: BTreeMap<u16, String>,
    /// Messages of this connection that the client has not finished: packet id and QoS.
    unfinished: BTreeMap<PacketId, QoS>,
    connected: bool,
    told_off: bool,
    next_id: PacketId,
}

impl Side {
    pub(crate) fn new(connecting: &Connecting) -> Self {
        Self {
            version: connecting.version,
            client_id: connecting.client_id.clone(),
            automatic: connecting.automatic,
            receive_maximum: usize::from(connecting.receive_maximum.unwrap_or(u16::MAX)),
            max_packet: connecting.max_packet.unwrap_or(MAX_PACKET_SIZE) as usize,
            alias_maximum: connecting.aliases.unwrap_or(0),
            buffer: Vec::new(),
            arrivals: VecDeque::new(),
            answered: VecDeque::new(),
            aliases: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            connected: false,
            told_off: false,
            next_id: PacketId::MIN,
        }
    }

    /// The next packet id that the client uses for its own packet.
    pub(crate) fn next_id(&mut self) -> PacketId {
        let id = self.next_id;
        self.next_id = id.next();
        id
    }

    /// Takes bytes from the server; returns the automatic answers of the client.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.buffer.extend_from_slice(bytes);
        let mut replies = Vec::new();
        while let Some(frame) = split_frame(&self.buffer, MAX_PACKET_SIZE).expect("the server sent no frame") {
            let whole: Vec<u8> = self.buffer.drain(..frame.total_len).collect();
            let mut arrival = Arrival::new(whole, self.version);
            let len = arrival.len();
            assert!(
                len <= self.max_packet,
                "{}: a packet of {len} bytes is above the client's maximum of {} [MQTT-3.1.2-24]: {arrival:?}",
                self.client_id,
                self.max_packet
            );
            self.judge(&arrival);
            if let Packet::Publish(publish) = arrival.packet() {
                let topic = self.topic_of(&publish);
                arrival.set_topic(topic);
            }
            let handled = self.automatic && self.reply(&arrival, &mut replies);
            if !handled {
                self.arrivals.push_back(arrival);
            }
        }
        replies
    }

    /// Rules that hold on each connection.
    fn judge(&mut self, arrival: &Arrival) {
        let (name, packet) = (&self.client_id, arrival.packet());
        assert!(!self.told_off, "{name}: a packet after DISCONNECT [MQTT-3.14.4-1]: {packet:?}");
        match &packet {
            Packet::ConnAck(_) => {
                assert!(!self.connected, "{name}: a second CONNACK: {packet:?}");
                self.connected = true;
            }
            // The one packet that may come before.
            Packet::Auth(_) => {}
            _ => assert!(self.connected, "{name}: a packet before CONNACK [MQTT-3.2.0-1]: {packet:?}"),
        }
        match &packet {
            Packet::Publish(publish) => self.judge_publish(publish),
            Packet::Disconnect(_) => {
                assert!(self.version.is_v5(), "{name}: DISCONNECT from a server is unknown before MQTT 5");
                self.told_off = true;
            }
            _ => {}
        }
    }

    fn judge_publish(&mut self, publish: &Publish<'_>) {
        let name = &self.client_id;
        let Some(id) = publish.packet_id else { return };
        let before = self.unfinished.insert(id, publish.qos);
        assert!(before.is_none(), "{name}: packet id {id} is in use [MQTT-2.2.1-4]: {publish:?}");
        let count = self.unfinished.len();
        assert!(
            count <= self.receive_maximum,
            "{name}: {count} messages unacknowledged, the receive maximum is {} [MQTT-3.3.4-9]",
            self.receive_maximum
        );
    }

    fn topic_of(&mut self, publish: &Publish<'_>) -> String {
        let named = publish.topic.map(|topic| topic.as_str().to_owned());
        let Some(alias) = publish.properties.topic_alias else { return named.expect("a topic") };
        let max = self.alias_maximum;
        assert!(alias.get() <= max, "{}: alias {alias} is above {max} [MQTT-3.1.2-26]", self.client_id);
        if let Some(topic) = &named {
            self.aliases.insert(alias.get(), topic.clone());
        }
        let known = self.aliases.get(&alias.get()).cloned();
        known.unwrap_or_else(|| panic!("{}: alias {alias} was never set", self.client_id))
    }

    /// Answers a packet of an exchange; returns whether the test need not see it.
    fn reply(&mut self, arrival: &Arrival, replies: &mut Vec<u8>) -> bool {
        let success = ReasonCode::Success;
        let reply = match arrival.packet() {
            Packet::Publish(publish) => match (publish.qos, publish.packet_id) {
                (QoS::AtLeastOnce, Some(id)) => Some(Packet::PubAck(PubAck::new(id, success))),
                (QoS::ExactlyOnce, Some(id)) => Some(Packet::PubRec(PubRec::new(id, success))),
                _ => None,
            },
            Packet::PubRel(release) => Some(Packet::PubComp(PubComp::new(release.packet_id, success))),
            Packet::PubRec(receipt) => {
                self.answered.push_back((PacketType::PubRec, receipt.packet_id, receipt.reason_code));
                let continues = !receipt.reason_code.is_error();
                continues.then(|| Packet::PubRel(PubRel::new(receipt.packet_id, success)))
            }
            Packet::PubAck(ack) => {
                self.answered.push_back((PacketType::PubAck, ack.packet_id, ack.reason_code));
                None
            }
            Packet::PubComp(ack) => {
                self.answered.push_back((PacketType::PubComp, ack.packet_id, ack.reason_code));
                None
            }
            _ => return false,
        };
        if let Some(reply) = reply {
            self.finish(&reply);
            reply.encode(self.version, replies).expect("an answer");
        }
        arrival.packet_type() != PacketType::Publish
    }

    /// Notes the message that a packet of the client finishes.
    pub(crate) fn finish(&mut self, packet: &Packet<'_>) {
        match packet {
            Packet::PubAck(ack) => {
                self.unfinished.remove(&ack.packet_id);
            }
            Packet::PubComp(ack) => {
                self.unfinished.remove(&ack.packet_id);
            }
            Packet::PubRec(ack) if ack.reason_code.is_error() => {
                self.unfinished.remove(&ack.packet_id);
            }
            _ => {}
        }
    }
}
