//! What services within the process get of a node: messages, who is connected, pongs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tidegate_engine::{InnerError, InnerMessage, InnerPublication, Millis, TenantId};
use tidegate_mqtt::QoS;
use tidegate_node::{Feed, FeedError, Node, ServiceWake};

use crate::wire::*;
use crate::{addresses, settings};

fn wake() -> (Arc<AtomicUsize>, ServiceWake) {
    let rung = Arc::new(AtomicUsize::new(0));
    let rings = Arc::clone(&rung);
    let count = move || {
        rings.fetch_add(1, Ordering::SeqCst);
    };
    (rung, Arc::new(count))
}

/// Takes until so many have come.
fn take(feed: &Feed, count: usize) -> Vec<InnerMessage> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(feed.take(64));
        std::thread::yield_now();
    }
    taken
}

fn filters(filter: &str) -> Vec<(String, QoS)> {
    vec![(filter.to_owned(), QoS::AtLeastOnce)]
}

#[test]
fn a_feed_brings_all_messages_in_order_beyond_its_room() {
    for shards in [1, 3] {
        let mut settings = settings(shards);
        settings.engine.queue.max_messages = 100_000;
        let node = Node::start(settings).unwrap();
        let [tcp, ..] = addresses(&node);
        let (rung, wake) = wake();
        let feed = node.handle().listen(TenantId::DEFAULT, "service", filters("t/#"), Arc::clone(&wake)).unwrap();
        let taken = node.handle().listen(TenantId::DEFAULT, "service", filters("t/#"), wake).unwrap_err();
        assert_eq!(taken, FeedError::Refused(InnerError::NameTaken));
        let mut client = Client::connect(&tcp, "client");
        for number in 0..5_000 {
            client.send(&publish(&format!("t/{number}"), b"x"));
        }
        let got = take(&feed, 5_000);
        assert!(got.iter().enumerate().all(|(number, message)| message.topic == format!("t/{number}")));
        assert!(rung.load(Ordering::SeqCst) > 0);
        drop(feed);
        while node.handle().report().unwrap().gauges.subscriptions > 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn clients_are_known_pinged_and_sent_elsewhere() {
    for shards in [1, 3] {
        let node = Node::start(settings(shards)).unwrap();
        let [tcp, ..] = addresses(&node);
        let mut client = Client::connect(&tcp, "client");
        let handle = node.handle();
        let links = handle.client_links(true).unwrap();
        assert_eq!(links.iter().map(|link| link.client_id.as_str()).collect::<Vec<_>>(), ["client"]);
        if cfg!(target_os = "linux") {
            assert!(links[0].rtt_us.is_some_and(|rtt| rtt > 0), "{links:?}");
        }
        let (_, wake) = wake();
        let pongs = handle.pongs(&wake);
        let before = Instant::now();
        let asked = |client_id: &str| (TenantId::DEFAULT, client_id.to_owned(), "p".to_owned());
        let sent = handle.ping(vec![asked("nobody"), asked("client")], Millis::NEVER).unwrap();
        assert!(sent[0].is_none() && sent[1].is_some_and(|at| at >= before));
        let publish = client.receive(7);
        assert_eq!(publish[..5], [0x32, 5, 0, 1, b'p']);
        assert!(pongs.take().is_none());
        client.send(&[0x40, 2, publish[5], publish[6]]);
        let pong = loop {
            if let Some(pong) = pongs.take() {
                break pong;
            }
            std::thread::yield_now();
        };
        assert!(pong.client_id == "client" && Some(pong.at) >= sent[1]);
        assert!(handle.send_elsewhere(TenantId::DEFAULT, "client", "other:1883").unwrap());
        assert!(!handle.send_elsewhere(TenantId::DEFAULT, "client", "other:1883").unwrap());
    }
}

#[test]
fn a_service_publishes_to_clients() {
    let node = Node::start(settings(3)).unwrap();
    let [tcp, ..] = addresses(&node);
    let mut client = Client::connect(&tcp, "client");
    client.send(&subscribe("list"));
    client.expect(&SUBACK);
    let message = InnerPublication {
        tenant: TenantId::DEFAULT,
        topic: "list".into(),
        qos: QoS::AtMostOnce,
        retain: false,
        properties: Vec::new(),
        payload: b"told".to_vec(),
        expires_at: Millis::NEVER,
    };
    node.handle().publish_inner(message);
    client.expect(&publish("list", b"told"));
}
