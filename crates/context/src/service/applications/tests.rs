//! The service between a simulated broker and a bus within this process. Tests wait for their expected events, never
//! for a time.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use tidegate_bus::{Address, Append, Bus, LogName, LogPartition, Position, Reader, Record, Settings};

use super::*;
use crate::partition::partition_of;
use crate::service::DeliveryOutcome;

/// After how long a test that still waits has failed.
const PATIENCE: Duration = Duration::from_secs(120);
const PARTITIONS: u32 = 2;

#[derive(Default)]
struct State {
    events: VecDeque<ApplicationEvent>,
    given: Vec<(Delivery, u64)>,
    /// True if the broker confirms records at once.
    answers: bool,
}

#[derive(Clone)]
struct Broker(Arc<Mutex<State>>, Bell);

impl Broker {
    fn new(answers: bool) -> Self {
        Self(Arc::new(Mutex::new(State { answers, ..State::default() })), Bell::default())
    }

    fn start(&self, courier: &Courier, sharing: Sharing) -> Running {
        let settings = ApplicationSettings { gateway: "gw".into(), packing: Packing::Plain, sharing };
        start_applications(courier.clone(), settings, Box::new(self.clone()), self.1.clone()).unwrap()
    }

    fn tell(&self, event: ApplicationEvent) {
        self.0.lock().unwrap().events.push_back(event);
        self.1.ring();
    }

    /// Waits until this number of messages has arrived, and returns all.
    fn until(&self, count: usize) -> Vec<(Delivery, u64)> {
        until(&format!("{count} messages"), || {
            let given = self.0.lock().unwrap().given.clone();
            (given.len() >= count).then_some(given)
        })
    }
}

fn until<T>(awaited: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{awaited}");
        std::thread::yield_now();
    }
}

impl ApplicationHost for Broker {
    fn take(&mut self) -> Option<ApplicationEvent> {
        self.0.lock().unwrap().events.pop_front()
    }

    fn deliver(&mut self, delivery: &Delivery, number: u64) {
        let mut state = self.0.lock().unwrap();
        state.given.push((delivery.clone(), number));
        if state.answers {
            state.events.push_back(ApplicationEvent::Taken { number, taken: true });
            self.1.ring();
        }
    }
}

/// A bus, and how an application writes and reads it.
fn bus() -> (Bus, Courier) {
    let bus = Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap();
    let courier = Courier::new(bus.clone(), PARTITIONS);
    (bus, courier)
}

fn place(topic: Topic, partition: u32) -> LogPartition {
    LogPartition::new(LogName::new(topic.name()).unwrap(), partition)
}

/// Appends a record, once the log is there.
fn append(bus: &Bus, topic: Topic, key: &str, payload: &str) {
    let partition = if topic.is_partitioned() { partition_of(key.as_bytes(), PARTITIONS) } else { 0 };
    let (sender, receiver) = channel();
    until("the log is there", || {
        let (sender, record) = (sender.clone(), Append::new(payload.to_owned()).with_key(key.to_owned()));
        bus.append(&place(topic, partition), record, Box::new(move |outcome| drop(sender.send(outcome)))).ok()
    });
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
}

/// All records of a topic, waited for.
fn records(bus: &Bus, topic: Topic, count: usize) -> Vec<Record> {
    let partitions = topic.partitions(PARTITIONS);
    let mut readers: Vec<Reader> = (0..partitions)
        .map(|partition| {
            until("the log is there", || bus.read(&place(topic, partition), Position::START, Arc::new(|| {})).ok())
        })
        .collect();
    let mut all = Vec::new();
    until(&format!("{count} records of {topic:?}"), || {
        for reader in &mut readers {
            all.extend(reader.take(1_000).unwrap().records);
        }
        (all.len() >= count).then_some(())
    });
    all
}

fn message(node: &str, payload: &str, confirmed: &Sender<DeliveryOutcome>) -> ApplicationEvent {
    let confirmed = confirmed.clone();
    let answer = Answer::new(move |outcome| {
        let _ = confirmed.send(outcome);
    });
    let message = NodeMessage {
        node: node.into(),
        application: "dispatch".into(),
        payload: payload.into(),
        ..NodeMessage::default()
    };
    ApplicationEvent::Message { message: Box::new(message), answer }
}

#[test]
fn messages_of_a_node_are_confirmed_in_order_on_the_bus() {
    let (bus, courier) = bus();
    let broker = Broker::new(true);
    let running = broker.start(&courier, Sharing::Each);
    courier.contexts().put(courier.contexts().turn(), "n1", b"{\"speed\":3}");
    let (confirmed, confirmations) = channel();
    for number in 0..100 {
        broker.tell(message(&format!("n{}", number % 3), &number.to_string(), &confirmed));
    }
    for _ in 0..100 {
        assert_eq!(confirmations.recv_timeout(PATIENCE), Ok(DeliveryOutcome::Done));
    }
    let records = records(&bus, Topic::AppModel, 100);
    for node in 0..3_usize {
        let of_node = records.iter().filter(|record| record.key == format!("n{node}").as_bytes());
        let numbers: Vec<usize> =
            of_node.map(|record| std::str::from_utf8(&record.payload).unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (0..100).filter(|number| number % 3 == node).collect::<Vec<_>>());
    }
    let context = records.iter().filter(|record| record.headers.iter().any(|header| header.name == "context"));
    assert!(context.clone().count() == 33 && context.clone().all(|record| record.key == "n1"));
    let mut ids: Vec<&str> =
        records.iter().flat_map(|record| &record.headers).filter(|h| h.name == "id").map(|h| &*h.value).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100, "each has an id of its own");
    drop(running);
    assert_eq!(courier.counters().figures().records_out, 100);
}

#[test]
fn a_record_too_large_for_the_bus_is_refused() {
    let (_bus, courier) = bus();
    let broker = Broker::new(true);
    let _running = broker.start(&courier, Sharing::Each);
    let (confirmed, confirmations) = channel();
    broker.tell(message("n", &"x".repeat(2_000_000), &confirmed));
    assert_eq!(confirmations.recv_timeout(PATIENCE), Ok(DeliveryOutcome::Never));
    until("it is counted", || (courier.counters().figures().records_refused == 1).then_some(()));
}

#[test]
fn records_reach_nodes_and_resume_after_confirmed_ones() {
    let (bus, courier) = bus();
    let broker = Broker::new(true);
    let running = broker.start(&courier, Sharing::Shared("a".into()));
    append(&bus, Topic::PrivateMessageTopic, "n1", "one");
    append(&bus, Topic::GroupMessageTopic, "g1", "two");
    append(&bus, Topic::BroadcastMessageTopic, "", "three");
    let mut given: Vec<_> = broker.until(3).into_iter().map(|(delivery, _)| delivery.address).collect();
    given.sort();
    assert_eq!(given, ["all", "group/g1", "node/n1"]);
    records(&bus, Topic::DeliveryPositions, 3);
    drop(running);
    // The next one continues. Its unconfirmed record is given to the one after it once more.
    append(&bus, Topic::PrivateMessageTopic, "n1", "four");
    for _ in 0..2 {
        let silent = Broker::new(false);
        let _running = silent.start(&courier, Sharing::Shared("b".into()));
        let given = silent.until(1);
        assert_eq!((given.len(), given[0].0.payload.as_slice()), (1, &b"four"[..]));
    }
}

#[test]
fn records_returned_by_the_broker_are_offered_again() {
    let (bus, courier) = bus();
    let broker = Broker::new(false);
    let _running = broker.start(&courier, Sharing::Shared("a".into()));
    append(&bus, Topic::PrivateMessageTopic, "n1", "one");
    let number = broker.until(1)[0].1;
    broker.tell(ApplicationEvent::Taken { number, taken: false });
    let given = broker.until(2);
    assert_eq!(given[0], given[1]);
    broker.tell(ApplicationEvent::Taken { number, taken: true });
    records(&bus, Topic::DeliveryPositions, 1);
}

#[test]
fn bad_records_are_put_aside_and_stop_nothing() {
    let (bus, courier) = bus();
    let broker = Broker::new(true);
    let _running = broker.start(&courier, Sharing::Shared("a".into()));
    for number in 0..20 {
        append(&bus, Topic::GroupMessageTopic, if number % 2 == 0 { "no/group" } else { "g" }, &number.to_string());
    }
    assert_eq!(broker.until(10).len(), 10);
    let aside = records(&bus, Topic::RejectedRecords, 10);
    let said = |name: &str| aside[0].headers.iter().find(|header| header.name == name).unwrap().value.clone();
    assert_eq!((said("topic").as_str(), aside.len()), ("GroupMessageTopic", 10));
    assert!(said("reason").contains("the name of a group"), "{}", said("reason"));
    assert_eq!(courier.counters().figures().records_rejected, 10);
    // They are passed for good.
    until("positions are behind them", || {
        let noted = records(&bus, Topic::DeliveryPositions, 1);
        let next =
            |record: &Record| serde_json::from_slice::<serde_json::Value>(&record.payload).unwrap()["next"].as_u64();
        let ends: u64 = noted.iter().filter_map(next).sum();
        (ends >= 20).then_some(())
    });
}

#[test]
fn separate_gateways_get_every_record_also_missed_ones() {
    let (bus, courier) = bus();
    let (a, b) = (Broker::new(true), Broker::new(true));
    let start = |broker: &Broker, name: &str| {
        let settings = ApplicationSettings { gateway: name.into(), packing: Packing::Plain, sharing: Sharing::Each };
        start_applications(courier.clone(), settings, Box::new(broker.clone()), broker.1.clone()).unwrap()
    };
    let first = (start(&a, "a"), start(&b, "b"));
    // Each has noted where it begins: two partitions of three topics.
    until("both gateways have begun", || {
        let noted = records(&bus, Topic::DeliveryPositions, 12);
        let begun = noted.iter().filter(|record| String::from_utf8_lossy(&record.key).contains("gateway-"));
        (begun.count() >= 12).then_some(())
    });
    append(&bus, Topic::BroadcastMessageTopic, "", "one");
    assert_eq!((a.until(1).len(), b.until(1).len()), (1, 1));
    drop(first);
    append(&bus, Topic::PrivateMessageTopic, "n", "two");
    let again = Broker::new(true);
    let _running = start(&again, "a");
    let payloads: Vec<_> = again.until(1).into_iter().map(|(delivery, _)| delivery.payload).collect();
    assert!(payloads.contains(&b"two".to_vec()), "{payloads:?}");
}

#[test]
fn a_bad_record_is_rejected_by_one_gateway_of_all() {
    let (bus, courier) = bus();
    let others = Courier::new(bus.clone(), PARTITIONS);
    let (a, b) = (Broker::new(true), Broker::new(true));
    let start = |broker: &Broker, courier: &Courier, name: &str| {
        let settings = ApplicationSettings { gateway: name.into(), packing: Packing::Plain, sharing: Sharing::Each };
        start_applications(courier.clone(), settings, Box::new(broker.clone()), broker.1.clone()).unwrap()
    };
    let running = (start(&a, &courier, "a"), start(&b, &others, "b"));
    until("both gateways have begun", || {
        let noted = records(&bus, Topic::DeliveryPositions, 12);
        let begun = noted.iter().filter(|record| String::from_utf8_lossy(&record.key).contains("gateway-"));
        (begun.count() >= 12).then_some(())
    });
    for number in 0..10 {
        append(&bus, Topic::GroupMessageTopic, "no/group", &number.to_string());
    }
    append(&bus, Topic::GroupMessageTopic, "g", "good");
    assert_eq!((a.until(1).len(), b.until(1).len()), (1, 1), "both pass the bad records");
    let rejected = || courier.counters().figures().records_rejected + others.counters().figures().records_rejected;
    until("all are rejected", || (rejected() >= 10).then_some(()));
    // Positions are noted behind all records of the two partitions: nothing more can be rejected.
    until("the rejecting reader is behind all records", || {
        let noted = records(&bus, Topic::DeliveryPositions, 1);
        let of_rejecting = noted.iter().filter(|record| String::from_utf8_lossy(&record.key).contains("rejected"));
        let next =
            |record: &Record| serde_json::from_slice::<serde_json::Value>(&record.payload).unwrap()["next"].as_u64();
        (of_rejecting.filter_map(next).sum::<u64>() >= 11).then_some(())
    });
    drop(running);
    assert_eq!((rejected(), records(&bus, Topic::RejectedRecords, 10).len()), (10, 10));
}
