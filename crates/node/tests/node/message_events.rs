//! Events of messages are found by client and by topic, and so are slow clients.

use tidegate_engine::{Reason, TenantId};
use tidegate_node::{FlightAnswer, FlightKind, FlightSubject, Node};

use crate::wire::*;
use crate::{addresses, settings};

fn why(node: &Node, subject: &FlightSubject) -> FlightAnswer {
    node.handle().clients().why(subject, None).unwrap()
}

#[test]
fn a_dropped_message_is_found_by_its_client_and_by_its_topic() {
    for shards in [1, 3] {
        let node = Node::start(settings(shards)).unwrap();
        let [tcp, ..] = addresses(&node);
        let mut reader = Client::dial(&tcp);
        reader.send(&connect_lasting("reader"));
        reader.expect(&CONNACK);
        reader.send(&subscribe("#"));
        reader.expect(&SUBACK);
        drop(reader);
        while node.handle().report().unwrap().gauges.sessions_connected > 0 {
            std::thread::yield_now();
        }
        let mut writer = Client::connect(&tcp, "writer");
        for number in 0..300 {
            writer.send(&publish(&format!("t/{number}"), b"x"));
        }
        while node.handle().report().unwrap().counters.dropped[Reason::OfflineQos0.number()] < 300 {
            std::thread::yield_now();
        }
        let story = why(&node, &FlightSubject::Client("reader".into()));
        let dropped: Vec<_> = story.events.iter().filter(|event| event.kind == FlightKind::Dropped).collect();
        assert!(dropped.iter().all(|event| event.reason == Some(Reason::OfflineQos0)));
        assert_eq!(dropped[0].topic.as_deref(), Some("t/0"));
        let before: u64 = story.events.iter().map(|event| event.suppressed).sum();
        assert_eq!(dropped.len() as u64 + before + story.suppressed, 300, "each is recorded or counted: {story:?}");
        let of_topic = why(&node, &FlightSubject::Topic("t/0".into()));
        let clients: Vec<_> = of_topic.events.iter().map(|event| event.client_id.as_deref()).collect();
        assert_eq!(clients, [Some("reader")]);
        assert_eq!(node.handle().clients().slow_sessions(10).unwrap(), []);
    }
}

#[test]
fn every_shard_names_its_clients_with_full_queues() {
    for shards in [1, 3] {
        let mut settings = settings(shards);
        settings.engine.queue.max_messages = 2;
        let node = Node::start(settings).unwrap();
        let [tcp, ..] = addresses(&node);
        for name in ["one", "two", "three"] {
            let mut client = Client::dial(&tcp);
            client.send(&connect_lasting(name));
            client.expect(&CONNACK);
            client.send(&subscribe_qos1("t"));
            client.receive(SUBACK.len());
        }
        while node.handle().report().unwrap().gauges.sessions_connected > 0 {
            std::thread::yield_now();
        }
        let mut writer = Client::connect(&tcp, "writer");
        for _ in 0..3 {
            writer.send(&publish_qos1("t", b"x"));
            writer.expect(&PUBACK);
        }
        while node.handle().report().unwrap().slow_sessions < 3 {
            std::thread::yield_now();
        }
        let mut slow = node.handle().clients().slow_sessions(10).unwrap();
        slow.sort_by(|a, b| a.client_id.cmp(&b.client_id));
        let named: Vec<_> = slow.iter().map(|slow| (slow.client_id.as_str(), slow.queued_messages)).collect();
        assert_eq!(named, [("one", 2), ("three", 2), ("two", 2)]);
        assert_eq!(node.handle().clients().slow_sessions(1).unwrap().len(), 1);
    }
}

#[test]
fn denials_and_pending_messages_of_a_client_are_found() {
    let mut settings = settings(1);
    settings.engine.limits.max_subscriptions_per_client = 1;
    settings.engine.listeners[0].max_message_rate = 1;
    let node = Node::start(settings).unwrap();
    let [tcp, ..] = addresses(&node);
    let mut client = Client::connect(&tcp, "c");
    for filter in ["one", "two"] {
        client.send(&subscribe(filter));
        client.receive(SUBACK.len());
    }
    client.send(&[publish("t", b"1"), publish("t", b"2"), PINGREQ.to_vec()].concat());
    client.expect(&PINGRESP);
    let story = why(&node, &FlightSubject::Client("c".into()));
    let denied = story.events.iter().find(|event| event.kind == FlightKind::Denied).unwrap();
    assert_eq!((denied.topic.as_deref(), denied.reason), (Some("two"), Some(Reason::TooManySubscriptions)));
    assert_eq!(&*denied.detail, "it wanted to subscribe");
    let delayed = story.events.iter().find(|event| event.kind == FlightKind::Delayed).unwrap();
    assert_eq!(&*delayed.detail, "it may not publish: it publishes faster than its rate limit");
}

#[test]
fn only_a_question_for_users_is_answered_with_them() {
    let mut settings = settings(2);
    settings.engine.usage_by_user = true;
    let node = Node::start(settings).unwrap();
    let [tcp, ..] = addresses(&node);
    let _client = Client::connect(&tcp, "c");
    let asked = node.handle().report_by_user().unwrap();
    let users: Vec<_> = asked.users.iter().map(|((tenant, user), usage)| (*tenant, &**user, usage.sessions)).collect();
    assert_eq!(users, [(TenantId::DEFAULT, "", 1)]);
    let report = node.handle().report().unwrap();
    assert!(report.users.is_empty() && report.shards.iter().all(|shard| shard.users.is_empty()));
    assert_eq!(report.usage[&TenantId::DEFAULT].sessions, 1);
}
