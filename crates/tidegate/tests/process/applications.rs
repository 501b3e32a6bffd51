//! Applications on a real NATS server, mobile nodes, and services of the core that are killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use tidegate_bus::{Address, Append, Bus, LogName, LogPartition, Position, Reader, Record, Settings};
use tidegate_context::messages::{GroupAdvertisement, Payload};
use tidegate_context::{RecordLimits, Topic, partition_of};

use crate::broker::{Broker, Folder, PATIENCE, until};
use crate::context::{GROUPS, Node, gateway, retained};
use crate::nats::Nats;

const PARTITIONS: u32 = 4;

/// An application on the bus.
pub(crate) struct Application(Bus);

impl Application {
    pub(crate) fn open(bus: &str, topics: &[Topic]) -> Self {
        let address: Address = bus.parse().unwrap();
        let bus = Bus::open(&address, Settings::default(), Arc::new(|_| {})).unwrap();
        for topic in topics {
            let (sender, receiver) = channel();
            let spec = topic.spec(PARTITIONS, RecordLimits::default()).unwrap();
            bus.create(spec, Box::new(move |outcome| drop(sender.send(outcome)))).unwrap();
            receiver.recv_timeout(PATIENCE).unwrap().unwrap();
        }
        Self(bus)
    }

    fn place(topic: Topic, partition: u32) -> LogPartition {
        LogPartition::new(LogName::new(topic.name()).unwrap(), partition)
    }

    pub(crate) fn send(&self, topic: Topic, key: &str, append: Append) {
        let partition = partition_of(key.as_bytes(), topic.partitions(PARTITIONS));
        let (sender, receiver) = channel();
        let append = append.with_key(key.to_owned());
        let done = Box::new(move |outcome| drop(sender.send(outcome)));
        self.0.append(&Self::place(topic, partition), append, done).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    }

    pub(crate) fn readers(&self, topic: Topic) -> Vec<Reader> {
        let read = |partition| self.0.read(&Self::place(topic, partition), Position::START, Arc::new(|| {})).unwrap();
        (0..topic.partitions(PARTITIONS)).map(read).collect()
    }

    fn records(&self, topic: Topic, count: usize) -> Vec<Record> {
        let (mut readers, mut all) = (self.readers(topic), Vec::new());
        until(&format!("{count} records of {}", topic.name()), || {
            all.extend(readers.iter_mut().flat_map(|reader| reader.take(100).unwrap().records));
            (all.len() >= count).then_some(())
        });
        all
    }
}

/// PUBLISH at QoS 1.
fn publish_1(node: &mut Node, topic: &str, id: u8, payload: &str) {
    let len = u8::try_from(topic.len() + payload.len()).unwrap();
    let head = [0x32, len + 5, 0, u8::try_from(topic.len()).unwrap()];
    node.send(&[&head[..], topic.as_bytes(), &[0, id, 0], payload.as_bytes()].concat());
}

/// The received messages up to one that ends like this.
fn until_message(node: &mut Node, end: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let (first, rest) = node.packet();
        if first >> 4 == 3 {
            all.push(String::from_utf8_lossy(&rest).into_owned());
            if rest.ends_with(end.as_bytes()) {
                return all;
            }
        }
    }
}

#[test]
fn a_killed_broker_loses_no_message_of_applications() {
    reach_each_other(&Nats::start().address());
}

#[cfg(feature = "kafka")]
#[test]
fn applications_on_kafka_and_nodes_exchange_messages() {
    use crate::cluster::Bus as _;
    crate::cluster::kafka::require_example("Dispatch");
    let kafka = crate::cluster::kafka::Kafka::start();
    reach_each_other(&kafka.address());
    let folder = Folder::new();
    // It waits for as long until it delivers what the one before it did, which was killed.
    let rest = format!("bus = '{}'\npartitions = {PARTITIONS}\nlease = '1s'\ndelivery = 'shared'\n", kafka.address());
    let broker = gateway(&folder, "plain", &rest);
    let mut truck = Node::connect(broker.address("mqtt://"), "truck-8");
    let mut dispatch = crate::cluster::kafka::example("Dispatch", &kafka);
    publish_1(&mut truck, "ctx/to/app/dispatch/position", 1, "here");
    let got = until_message(&mut truck, "load timber");
    let _ = (dispatch.kill(), dispatch.wait());
    assert!(got.iter().any(|message| message.contains("ctx/to/node/truck-8/job")), "{got:?}");
}

/// Applications on a bus, a node, and a broker that is killed.
fn reach_each_other(bus: &str) {
    let folder = Folder::new();
    let rest = format!(
        "bus = '{}'\npartitions = {PARTITIONS}\nlease = '1s'\ndelivery = 'shared'\n[store]\ndirectory = '{}'\n",
        bus,
        folder.file("store")
    );
    let broker = gateway(&folder, "gw", &rest);
    let application = Application::open(bus, &Topic::APPLICATIONS);
    let mut truck = Node::connect(broker.address("mqtt://"), "truck-7");
    let job = Append::new("one").with_header("topic", "job").with_header("receipt", "all");
    let job = job.with_header("response-topic", "ctx/to/app/dispatch/receipts");
    application.send(Topic::PrivateMessageTopic, "truck-7", job);
    let got = until_message(&mut truck, "one");
    assert!(got[0].contains("ctx/to/node/truck-7/job"), "{got:?}");
    publish_1(&mut truck, "ctx/to/app/dispatch/done", 7, "well");
    until("PUBACK", || (truck.packet() == (0x40, vec![0, 7])).then_some(()));
    let records = application.records(Topic::AppModel, 1);
    let record = records.iter().find(|record| &record.payload[..] == b"well").expect("an acknowledged record is kept");
    let said = |name: &str| record.headers.iter().find(|header| header.name == name).map(|header| &*header.value);
    assert_eq!((&record.key[..], said("recipient"), said("topic")), (&b"truck-7"[..], Some("dispatch"), Some("done")));
    // It dies in the middle of everything. Meanwhile applications go on, not all of them well.
    broker.signal("KILL");
    broker.wait();
    for _ in 0..3 {
        application.send(Topic::GroupMessageTopic, "no/group", Append::new("bad"));
    }
    application.send(Topic::BroadcastMessageTopic, "", Append::new("two"));
    application.send(Topic::PrivateMessageTopic, "truck-7", Append::new("three").with_header("qos", "2"));
    let broker = gateway(&folder, "gw", &rest);
    let mut truck = Node::connect(broker.address("mqtt://"), "truck-7");
    let mut got = Vec::new();
    while !["one", "two", "three"].iter().all(|end| got.iter().any(|message: &String| message.ends_with(end))) {
        let (first, rest) = truck.packet();
        assert_eq!(first >> 4, 3, "PUBLISH");
        got.push(String::from_utf8_lossy(&rest).into_owned());
    }
    let aside = application.records(Topic::RejectedRecords, 3);
    assert_eq!((aside.len(), &aside[0].payload[..]), (3, &b"bad"[..]));
    let (_, metrics) = broker.get("/metrics");
    assert!(metrics.contains("tidegate_context_records_rejected_total 3\n"), "{metrics}");
    // The receipt of the message sent before the broker died is a record, too.
    for number in 0..got.len() {
        truck.send(&[0x40, 2, 0, u8::try_from(number + 1).unwrap()]);
    }
    let receipts = application.records(Topic::AppModel, 2);
    assert!(receipts.iter().any(|record| record.payload.starts_with(b"{\"receipt\":\"delivered\"")), "{receipts:?}");
    broker.signal("TERM");
    let said = broker.wait().err;
    assert_eq!(
        said.matches("a record is not a message for nodes").count(),
        1,
        "the log hears of it once a minute: {said}"
    );
}

/// The statements of definers about each node, in order.
struct Told(Vec<Reader>, BTreeMap<String, Vec<Vec<String>>>);

impl Told {
    fn until_all(&mut self, nodes: usize, groups: &[&str]) {
        until(&format!("{nodes} nodes are in {groups:?}"), || {
            for record in self.0.iter_mut().flat_map(|reader| reader.take(1_000).unwrap().records) {
                let told = GroupAdvertisement::read(&record.payload).unwrap();
                self.1.entry(told.node.unwrap()).or_default().push(told.groups);
            }
            let there = self.1.values().filter(|told| told.last().is_some_and(|last| *last == groups)).count();
            (there == nodes).then_some(())
        });
    }
}

#[test]
fn a_killed_service_loses_and_repeats_no_message() {
    const NODES: usize = 40;
    let (nats, folder) = (Nats::start(), Folder::new());
    let rest = format!("bus = '{}'\npartitions = {PARTITIONS}\nservices = 'elsewhere'\n", nats.address());
    let a = gateway(&folder, "a", &rest);
    let core = |services: &str, name: &str| {
        let set = ["--set", "context.partitions=4", "--set", "context.cycle=100ms", "--set", "context.lease=1s"];
        let bus = nats.address();
        let named = ["--services", services, "--groups", GROUPS, "--member", name];
        Broker::start_with(&[&["core", "--bus", &bus][..], &named, &set].concat())
    };
    // Each service alone, twice.
    let (manager, _stands_by) = (core("points", "p1"), core("points", "p2"));
    let (definer, _shares) = (core("groups", "g1"), core("groups", "g2"));
    let application = Application::open(&nats.address(), &Topic::ALL);
    let mut told = Told(application.readers(Topic::GroupAdvertisement), BTreeMap::new());
    let mut sender = Node::connect(a.address("mqtt://"), "sender");
    let mut send = |kind: &str| {
        for node in 0..NODES {
            sender.publish(&format!("ctx/context/n{node}"), &format!(r#"{{"kind": "{kind}"}}"#));
        }
    };
    send("ambulance");
    told.until_all(NODES, &["ambulances"]);
    // In the middle of its records.
    send("tractor");
    definer.signal("KILL");
    let began = Instant::now();
    definer.wait();
    told.until_all(NODES, &[]);
    println!("groups are right {} ms after a definer's kill -9, with a lease of 1 s", began.elapsed().as_millis());
    retained(&a, "ctx/gateways");
    manager.signal("KILL");
    let began = Instant::now();
    manager.wait();
    // A gateway that comes now is in the list of the next manager.
    let b = gateway(&folder, "b", &rest);
    until("the list has both gateways", || retained(&b, "ctx/gateways").contains("\"name\":\"b\"").then_some(()));
    println!("the list is right {} ms after the manager's kill -9", began.elapsed().as_millis());
    let _again = (core("points", "p1"), core("groups", "g1"));
    send("ambulance");
    told.until_all(NODES, &["ambulances"]);
    for (node, told) in told.1 {
        let wanted = [vec!["ambulances".to_owned()], Vec::new(), vec!["ambulances".to_owned()]];
        assert_eq!(told, wanted, "{node}");
    }
}
