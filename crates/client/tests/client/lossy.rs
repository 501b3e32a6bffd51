//! Against a server that keeps to the protocol, over connections that break at any byte: at QoS 1 no message is
//! lost, at QoS 2 none is lost and none arrives twice, and each QoS keeps its order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;

use proptest::prelude::*;
use tidegate_client::{Acknowledgement, Delivery, Event, Options, PacketId, QoS, ReasonCode, Version};
use tidegate_mqtt::{
    ConnAck, Packet, PubAck, PubComp, PubRec, PubRel, Publish, PublishProperties, TopicName, split_frame,
};

use crate::script::{Script, message, options};

/// A server with one session, which outlives connections.
#[derive(Default)]
struct Server {
    version: Option<Version>,
    input: Vec<u8>,
    output: Vec<u8>,
    connected: bool,
    /// Whether it has a session of the client.
    has_session: bool,
    /// The published messages that the server owns.
    arrived: BTreeMap<QoS, Vec<u8>>,
    /// Identifiers of QoS 2 messages that have arrived and wait for their PUBREL.
    received: BTreeSet<PacketId>,
    /// Messages for the client that have not been sent.
    queue: VecDeque<(QoS, u8)>,
    /// Messages for the client that have been sent, in order; `released` after the PUBREC.
    in_flight: Vec<InFlight>,
    next_id: u16,
}

#[derive(Clone, Copy)]
struct InFlight {
    id: PacketId,
    qos: QoS,
    number: u8,
    released: bool,
}

/// How many messages the server sends before the first is acknowledged.
const WINDOW: usize = 3;

impl Server {
    fn version(&self) -> Version {
        self.version.unwrap()
    }

    fn disconnect(&mut self) {
        self.input.clear();
        self.output.clear();
        self.connected = false;
    }

    fn send(&mut self, packet: &Packet<'_>) {
        packet.encode(self.version(), &mut self.output).unwrap();
    }

    fn handle(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some(frame) = split_frame(rest, u32::MAX).unwrap() {
            let packet = Packet::decode(self.version(), &frame).unwrap();
            self.handle_packet(&packet);
            rest = &rest[frame.total_len..];
        }
        self.input = rest.to_vec();
    }

    fn handle_packet(&mut self, packet: &Packet<'_>) {
        let ok = ReasonCode::Success;
        match packet {
            Packet::Connect(_) => self.accept(),
            Packet::Publish(publish) => {
                let number = publish.payload[0];
                let id = publish.packet_id;
                let fresh = publish.qos != QoS::ExactlyOnce || self.received.insert(id.unwrap());
                if fresh {
                    self.arrived.entry(publish.qos).or_default().push(number);
                }
                match publish.qos {
                    QoS::AtMostOnce => {}
                    QoS::AtLeastOnce => self.send(&Packet::PubAck(PubAck::new(id.unwrap(), ok))),
                    QoS::ExactlyOnce => self.send(&Packet::PubRec(PubRec::new(id.unwrap(), ok))),
                }
            }
            Packet::PubRel(packet) => {
                self.received.remove(&packet.packet_id);
                self.send(&Packet::PubComp(PubComp::new(packet.packet_id, ok)));
            }
            Packet::PubAck(packet) => {
                let settled = self.position(packet.packet_id, QoS::AtLeastOnce);
                self.in_flight.remove(settled.expect("a PUBACK for a sent message"));
            }
            Packet::PubRec(packet) => {
                let at = self.position(packet.packet_id, QoS::ExactlyOnce);
                self.in_flight[at.expect("a PUBREC for a sent message")].released = true;
                self.send(&Packet::PubRel(PubRel::new(packet.packet_id, ok)));
            }
            Packet::PubComp(packet) => {
                let settled = self.position(packet.packet_id, QoS::ExactlyOnce);
                let entry = self.in_flight.remove(settled.expect("a PUBCOMP for a sent message"));
                assert!(entry.released);
            }
            other => panic!("{other:?}"),
        }
        self.send_waiting();
    }

    fn position(&self, id: PacketId, qos: QoS) -> Option<usize> {
        let same = |entry: &InFlight| entry.id == id && entry.qos == qos;
        self.in_flight.iter().position(same)
    }

    fn accept(&mut self) {
        self.connected = true;
        let session_present = std::mem::replace(&mut self.has_session, true);
        self.send(&Packet::ConnAck(ConnAck { session_present, ..ConnAck::default() }));
        for entry in self.in_flight.clone() {
            if entry.released {
                self.send(&Packet::PubRel(PubRel::new(entry.id, ReasonCode::Success)));
            } else {
                self.send_message(entry, true);
            }
        }
    }

    fn send_waiting(&mut self) {
        while self.connected && self.in_flight.len() < WINDOW {
            let Some((qos, number)) = self.queue.pop_front() else {
                break;
            };
            self.next_id = self.next_id % 5 + 1;
            while self.in_flight.iter().any(|entry| entry.id.get() == self.next_id) {
                self.next_id = self.next_id % 5 + 1;
            }
            let entry = InFlight { id: PacketId::new(self.next_id).unwrap(), qos, number, released: false };
            self.in_flight.push(entry);
            self.send_message(entry, false);
        }
    }

    fn send_message(&mut self, entry: InFlight, dup: bool) {
        let payload = [entry.number];
        self.send(&Packet::Publish(Publish {
            dup,
            qos: entry.qos,
            retain: false,
            topic: Some(TopicName::new("t").unwrap()),
            packet_id: Some(entry.id),
            properties: PublishProperties::default(),
            payload: &payload,
        }));
    }
}

/// The next step.
#[derive(Clone, Copy, Debug)]
enum Step {
    ClientPublishes(QoS),
    ServerPublishes(QoS),
    /// A multiple of [`World::unit`] bytes arrives at the server.
    Upstream(usize),
    /// A multiple of [`World::unit`] bytes arrives at the client.
    Downstream(usize),
    /// The owner acknowledges one of the messages that it holds.
    Acknowledge(usize),
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    let qos = || prop_oneof![Just(QoS::AtLeastOnce), Just(QoS::ExactlyOnce)];
    prop_oneof![
        2 => qos().prop_map(Step::ClientPublishes),
        2 => qos().prop_map(Step::ServerPublishes),
        5 => (1..40_usize).prop_map(Step::Upstream),
        5 => (1..40_usize).prop_map(Step::Downstream),
        3 => (0..8_usize).prop_map(Step::Acknowledge),
        1 => Just(Step::Break),
    ]
}

/// The client, its owner, the server, and the expected final state.
struct World {
    script: Script,
    server: Server,
    published: BTreeMap<QoS, Vec<u8>>,
    sent_down: BTreeMap<QoS, Vec<u8>>,
    delivered: BTreeMap<QoS, Vec<u8>>,
    settled: usize,
    held: Vec<Delivery>,
    manual: bool,
    next: u8,
    /// The bytes that a step upstream or downstream counts as one.
    unit: usize,
}

/// A unit that carries the releases of all identifiers, 256 KiB, within some steps.
const LARGE_UNIT: usize = 8 << 10;

impl World {
    /// A world in which the client has connected. `foreign`: the server had a session of an earlier client.
    fn new(version: Version, manual: bool, foreign: bool) -> Self {
        let own = Options {
            acknowledgement: if manual { Acknowledgement::Manual } else { Acknowledgement::Automatic },
            max_in_flight: NonZeroU16::new(3).unwrap(),
            ..options(version)
        };
        let mut world = Self {
            script: Script::new(own),
            server: Server { version: Some(version), has_session: foreign, ..Server::default() },
            published: BTreeMap::new(),
            sent_down: BTreeMap::new(),
            delivered: BTreeMap::new(),
            settled: 0,
            held: Vec::new(),
            manual,
            next: 0,
            unit: if foreign { LARGE_UNIT } else { 1 },
        };
        world.script.client.open(world.script.now).unwrap();
        world.take(Step::Upstream(usize::MAX));
        world.take(Step::Downstream(usize::MAX));
        world
    }

    fn number(&mut self) -> u8 {
        self.next += 1;
        self.next
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::ClientPublishes(qos) => {
                let number = self.number();
                let mut publish = message("t", "", qos);
                publish.payload = vec![number];
                let now = self.script.now;
                self.script.client.publish(now, publish).unwrap();
                self.published.entry(qos).or_default().push(number);
            }
            Step::ServerPublishes(qos) => {
                let number = self.number();
                self.server.queue.push_back((qos, number));
                self.server.send_waiting();
                self.sent_down.entry(qos).or_default().push(number);
            }
            Step::Upstream(count) => {
                let count = count.saturating_mul(self.unit).min(self.script.client.output().len());
                let bytes = self.script.client.output()[..count].to_vec();
                self.script.client.advance_output(self.script.now, count);
                self.server.handle(&bytes);
            }
            Step::Downstream(count) => {
                let count = count.saturating_mul(self.unit).min(self.server.output.len());
                let bytes: Vec<u8> = self.server.output.drain(..count).collect();
                self.script.receive(&bytes);
            }
            Step::Acknowledge(which) => {
                if let Some(which) = which.checked_rem(self.held.len()) {
                    let delivery = self.held.remove(which);
                    self.script.client.acknowledge(self.script.now, delivery);
                }
            }
            Step::Break => {
                self.script.client.handle_closed();
                self.server.disconnect();
                self.script.client.open(self.script.now).unwrap();
            }
        }
        self.read_events();
    }

    fn read_events(&mut self) {
        while let Some(event) = self.script.client.poll_event() {
            match event {
                Event::Message(message) => {
                    let delivered = self.delivered.entry(message.qos).or_default();
                    delivered.push(message.payload[0]);
                    self.held.extend(message.delivery.filter(|_| self.manual));
                }
                Event::Published(published) => {
                    assert_eq!(published.reason_code, ReasonCode::Success);
                    self.settled += 1;
                }
                Event::Connected(_) | Event::Disconnected(tidegate_client::Disconnected::TransportClosed) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The connection is stable from now on, and all parties finish their work.
    fn settle(&mut self) {
        for _ in 0..5_000 {
            self.take(Step::Upstream(usize::MAX));
            self.take(Step::Downstream(usize::MAX));
            self.take(Step::Acknowledge(0));
        }
        assert!(self.script.client.is_idle());
        assert!(self.server.in_flight.is_empty() && self.server.queue.is_empty());
    }

    fn check(&self) {
        let total: usize = self.published.values().map(Vec::len).sum();
        assert_eq!(self.settled, total);
        check_both(&self.published, &self.server.arrived);
        check_both(&self.sent_down, &self.delivered);
    }
}

fn check_both(wanted: &BTreeMap<QoS, Vec<u8>>, got: &BTreeMap<QoS, Vec<u8>>) {
    let list = |map: &BTreeMap<QoS, Vec<u8>>, qos| map.get(&qos).cloned().unwrap_or_default();
    let exactly = QoS::ExactlyOnce;
    assert_eq!(list(got, exactly), list(wanted, exactly), "exactly once, in order");
    // Repetitions aside, messages of QoS 1 first arrive in their order.
    let mut seen = BTreeSet::new();
    let mut first = list(got, QoS::AtLeastOnce);
    first.retain(|number| seen.insert(*number));
    assert_eq!(first, list(wanted, QoS::AtLeastOnce), "at least once, in order");
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(
        version in prop_oneof![Just(Version::V311), Just(Version::V5)],
        manual in any::<bool>(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        play(World::new(version, manual, false), steps);
    }
}

proptest! {
    // Each case releases all identifiers at least once.
    #![proptest_config(ProptestConfig::with_cases(4))]
    #[test]
    fn nothing_is_lost_to_the_session_of_an_earlier_client(
        version in prop_oneof![Just(Version::V311), Just(Version::V5)],
        steps in prop::collection::vec(step(), 0..60),
    ) {
        play(World::new(version, false, true), steps);
    }
}

fn play(mut world: World, steps: Vec<Step>) {
    for step in steps {
        world.take(step);
    }
    world.settle();
    world.check();
}
