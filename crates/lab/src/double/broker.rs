//! The double as a state machine: bytes and times go in, and bytes come out when they are due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use tidegate_mqtt::{
    ConnAck, Connect, DecodeError, EncodeError, Frame, MAX_PACKET_SIZE, Packet, PacketId, PacketType, PingResp, PubAck,
    PubComp, PubRec, PubRel, Publish, PublishHead, QoS, ReasonCode, SubAck, Subscribe, TopicName, Version, split_frame,
};

use super::behaviour::{Behaviour, DeliveryOutcome};
use super::records::Records;
use super::subscriptions::Subscriptions;
use crate::load::chance::Chance;

/// How long a delivery waits for the delivery that overtakes it, in nanoseconds.
const WAITS_NS: u64 = 200_000_000;

/// A message that waits to be overtaken.
struct Held {
    since_ns: u64,
    came_ns: u64,
    bytes: Vec<u8>,
}

struct Client {
    version: Version,
    packet_id: u16,
    /// Its future output with its times, in order.
    due: VecDeque<(u64, Vec<u8>)>,
    /// The time of the last output.
    last_ns: u64,
    held: HashMap<String, Held>,
}

/// A broker with configured faults.
pub struct Double {
    behaviour: Behaviour,
    chance: Chance,
    clients: HashMap<u32, Client>,
    subscriptions: Subscriptions,
    wakes: BinaryHeap<Reverse<(u64, u32)>>,
    records: Records,
}

impl Double {
    /// A broker that behaves like this.
    pub fn new(behaviour: Behaviour) -> Self {
        let chance = Chance::new(behaviour.seed);
        Self {
            behaviour,
            chance,
            clients: HashMap::new(),
            subscriptions: Subscriptions::default(),
            wakes: BinaryHeap::new(),
            records: Records::default(),
        }
    }

    /// The records so far.
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// The time of the next output.
    pub fn next_ns(&self) -> Option<u64> {
        self.wakes.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// A connection has ended.
    pub fn closed(&mut self, connection: u32) {
        self.clients.remove(&connection);
        self.subscriptions.remove(connection);
    }

    /// Processes the bytes of a connection; returns how many of them were complete packets. `None` for bytes that are
    /// not MQTT.
    pub fn received(&mut self, connection: u32, bytes: &[u8], now_ns: u64) -> Option<usize> {
        let now_ns = (now_ns, self.behaviour.worked_on(now_ns));
        let mut taken = 0;
        while let Some(frame) = split_frame(&bytes[taken..], MAX_PACKET_SIZE).ok()? {
            self.take(connection, &frame, now_ns).ok()?;
            taken += frame.total_len;
        }
        Some(taken)
    }

    /// Returns all output that is due.
    pub fn give(&mut self, now_ns: u64, mut to: impl FnMut(u32, &[u8])) {
        while let Some(&Reverse((at_ns, connection))) = self.wakes.peek() {
            if at_ns > now_ns {
                return;
            }
            self.wakes.pop();
            self.let_go(connection, now_ns);
            let Some(client) = self.clients.get_mut(&connection) else { continue };
            while client.due.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
                if let Some((_, bytes)) = client.due.pop_front() {
                    to(connection, &bytes);
                }
            }
        }
    }

    fn take(&mut self, connection: u32, frame: &Frame<'_>, now_ns: (u64, u64)) -> Result<(), DecodeError> {
        if frame.packet_type() == PacketType::Connect {
            let connect = Connect::decode(frame.first_byte, frame.body)?;
            self.connect(connection, connect.version, now_ns.1);
            return Ok(());
        }
        let Some(version) = self.clients.get(&connection).map(|client| client.version) else { return Ok(()) };
        let at_ns = now_ns.1;
        match Packet::decode(version, frame)? {
            Packet::Publish(publish) => self.publish(connection, &publish, now_ns),
            Packet::Subscribe(subscribe) => self.subscribe(connection, version, &subscribe, at_ns),
            Packet::PubRel(packet) => {
                self.reply(connection, at_ns, |out| {
                    PubComp::new(packet.packet_id, ReasonCode::Success).encode(version, out)
                });
            }
            Packet::PubRec(packet) => {
                self.reply(connection, at_ns, |out| {
                    PubRel::new(packet.packet_id, ReasonCode::Success).encode(version, out)
                });
            }
            Packet::PingReq(_) => self.reply(connection, at_ns, |out| {
                PingResp.encode(out);
                Ok(())
            }),
            _ => {}
        }
        Ok(())
    }

    fn connect(&mut self, connection: u32, version: Version, at_ns: u64) {
        let client = Client { version, packet_id: 0, due: VecDeque::new(), last_ns: 0, held: HashMap::new() };
        self.clients.insert(connection, client);
        let refused = self.behaviour.refuse_client > 0.0 && self.chance.happens(self.behaviour.refuse_client);
        self.records.clients_refused += u64::from(refused);
        let code = if refused { ReasonCode::ServerUnavailable } else { ReasonCode::Success };
        self.reply(connection, at_ns, |out| ConnAck::refused(code).encode(version, out));
    }

    fn subscribe(&mut self, connection: u32, version: Version, subscribe: &Subscribe<'_>, at_ns: u64) {
        let mut codes = Vec::new();
        for (filter, options) in subscribe.filters() {
            let share = self.behaviour.refuse_subscription;
            if share > 0.0 && self.chance.happens(share) {
                self.records.subscriptions_refused += 1;
                codes.push(ReasonCode::NotAuthorized);
            } else if let Ok(filter) = filter {
                self.subscriptions.add(connection, filter, options.qos);
                codes.push(ReasonCode::granted(options.qos));
            } else {
                codes.push(ReasonCode::TopicFilterInvalid);
            }
        }
        self.reply(connection, at_ns, |out| SubAck::new(subscribe.packet_id, &codes).encode(version, out));
    }

    fn publish(&mut self, connection: u32, publish: &Publish<'_>, (now_ns, at_ns): (u64, u64)) {
        let Some(topic) = publish.topic else { return };
        let version = self.clients.get(&connection).map_or(Version::V5, |client| client.version);
        self.records.published += 1;
        let mut code = ReasonCode::Success;
        if publish.qos != QoS::AtMostOnce && self.behaviour.refuse > 0.0 && self.chance.happens(self.behaviour.refuse) {
            code = ReasonCode::QuotaExceeded;
            self.records.refused += 1;
        }
        if let Some(packet_id) = publish.packet_id {
            self.reply(connection, at_ns, |out| match publish.qos {
                QoS::ExactlyOnce => PubRec::new(packet_id, code).encode(version, out),
                _ => PubAck::new(packet_id, code).encode(version, out),
            });
        }
        if code.is_error() {
            return;
        }
        for (receiver, qos) in self.subscriptions.wanting(topic) {
            self.deliver(receiver, publish, topic, qos.min(publish.qos), (now_ns, at_ns));
        }
    }

    fn deliver(
        &mut self,
        connection: u32,
        publish: &Publish<'_>,
        topic: TopicName<'_>,
        qos: QoS,
        (now_ns, at_ns): (u64, u64),
    ) {
        let outcome = self.behaviour.outcome(&mut self.chance);
        if outcome == DeliveryOutcome::Dropped {
            self.records.dropped += 1;
            return;
        }
        let at_ns = at_ns + self.behaviour.delay.take(&mut self.chance);
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let bytes = client.encode(publish, topic, qos);
        if outcome == DeliveryOutcome::Overtaken && !client.held.contains_key(topic.as_str()) {
            client.held.insert(topic.as_str().to_owned(), Held { since_ns: at_ns, came_ns: now_ns, bytes });
            self.wakes.push(Reverse((at_ns + WAITS_NS, connection)));
            return;
        }
        let mut given = vec![(now_ns, bytes)];
        if outcome == DeliveryOutcome::Doubled {
            // A second delivery has a packet id of its own, as one by another subscription has.
            self.records.duplicated += 1;
            given.push((u64::MAX, client.encode(publish, topic, qos)));
        }
        if let Some(held) = client.held.remove(topic.as_str()) {
            self.records.reordered += 1;
            given.push((held.came_ns, held.bytes));
        }
        for (came_ns, bytes) in given {
            let at_ns = client.queue(at_ns, bytes);
            self.wakes.push(Reverse((at_ns, connection)));
            if came_ns != u64::MAX {
                self.records.delivered += 1;
                self.records.delays.record(at_ns - came_ns);
            }
        }
    }

    /// Gives up waiting for messages that were to overtake others.
    fn let_go(&mut self, connection: u32, now_ns: u64) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let waited: Vec<String> = client
            .held
            .iter()
            .filter(|(_, held)| held.since_ns + WAITS_NS <= now_ns)
            .map(|(topic, _)| topic.clone())
            .collect();
        for topic in waited {
            if let Some(held) = client.held.remove(&topic) {
                let at_ns = client.queue(now_ns, held.bytes);
                self.wakes.push(Reverse((at_ns, connection)));
                self.records.delivered += 1;
                self.records.delays.record(at_ns - held.came_ns);
            }
        }
    }

    fn reply(&mut self, connection: u32, at_ns: u64, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        let Some(client) = self.clients.get_mut(&connection) else { return };
        let mut bytes = Vec::new();
        if encode(&mut bytes).is_ok() {
            let at_ns = client.queue(at_ns, bytes);
            self.wakes.push(Reverse((at_ns, connection)));
        }
    }
}

impl Client {
    /// Appends output to the queue; returns its time.
    fn queue(&mut self, at_ns: u64, bytes: Vec<u8>) -> u64 {
        self.last_ns = self.last_ns.max(at_ns);
        self.due.push_back((self.last_ns, bytes));
        self.last_ns
    }

    fn encode(&mut self, publish: &Publish<'_>, topic: TopicName<'_>, qos: QoS) -> Vec<u8> {
        if qos != QoS::AtMostOnce {
            self.packet_id = PacketId::new(self.packet_id).map_or(PacketId::MIN, PacketId::next).get();
        }
        let head = PublishHead {
            version: self.version,
            dup: false,
            qos,
            retain: false,
            topic: topic.as_str(),
            packet_id: self.packet_id,
            forwarded_properties: &[],
            message_expiry: None,
            topic_alias: None,
            subscription_identifiers: &[],
        };
        let mut bytes = Vec::new();
        head.encode(publish.payload.len(), &mut bytes);
        bytes.extend_from_slice(publish.payload);
        bytes
    }
}
