//! Answers of a node to services within the process: connected clients, pongs.

use std::sync::Arc;
use std::time::Instant;

use tidegate_engine::{
    InnerPublication, Millis, Observer, ObserverPolicy, ObserverWindow, Principal, PrincipalKind, Reason, TenantId,
};
use tidegate_mqtt::{QoS, ReasonCode};
use tidegate_node::{Answered, Deliver, Node, ServiceWake};

use crate::wire::*;
use crate::{addresses, settings};

#[test]
fn clients_are_known_pinged_and_sent_elsewhere() {
    for shards in [1, 3] {
        let node = Node::start(settings(shards)).unwrap();
        let [tcp, ..] = addresses(&node);
        let mut client = Client::connect(&tcp, "client");
        let handle = node.handle();
        let links = handle.insiders().client_links(true).unwrap();
        assert_eq!(links.iter().map(|link| link.client_id.as_str()).collect::<Vec<_>>(), ["client"]);
        if cfg!(target_os = "linux") {
            assert!(links[0].rtt_us.is_some_and(|rtt| rtt > 0), "{links:?}");
        }
        let wake: ServiceWake = Arc::new(|| {});
        let pongs = handle.insiders().pongs(&wake);
        let before = Instant::now();
        let asked = |client_id: &str| (TenantId::DEFAULT, client_id.to_owned(), "p".to_owned());
        let sent = handle.insiders().ping(vec![asked("absent"), asked("client")], Millis::NEVER).unwrap();
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
        assert!(handle.insiders().send_elsewhere(TenantId::DEFAULT, "client", "other:1883").unwrap());
        assert!(!handle.insiders().send_elsewhere(TenantId::DEFAULT, "client", "other:1883").unwrap());
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
    node.handle().insiders().publish_inner(message);
    client.expect(&publish("list", b"told"));
}

#[test]
fn a_principal_is_answered_on_every_shard() {
    let node = Node::start(settings(3)).unwrap();
    let [tcp, ..] = addresses(&node);
    let mut client = Client::connect(&tcp, "client");
    client.send(&subscribe("list"));
    client.expect(&SUBACK);
    for name in ["a", "b", "c", "d"] {
        let (sender, outcomes) = std::sync::mpsc::channel();
        let answered: Answered = Arc::new(move |number, outcome| sender.send((number, outcome)).unwrap());
        let principal = Principal {
            kind: PrincipalKind::User,
            tenant: TenantId::DEFAULT,
            name: name.into(),
            identity: None,
            listener: None,
            max_held_messages: 10,
            max_held_bytes: 10_000,
            unobserved_by: Vec::new(),
        };
        let principal = node.handle().insiders().principal(principal, 1, &answered);
        let message = InnerPublication {
            tenant: TenantId::DEFAULT,
            topic: "list".into(),
            qos: QoS::AtLeastOnce,
            retain: true,
            properties: Vec::new(),
            payload: name.into(),
            expires_at: Millis::NEVER,
        };
        principal.publish(message.clone(), 1).unwrap();
        assert_eq!(outcomes.recv(), Ok((1, Ok(ReasonCode::Success))));
        client.expect(&publish("list", name.as_bytes()));
        let retained = principal.retained("list").unwrap().unwrap().unwrap();
        assert_eq!(retained.payload, name.as_bytes());
        assert_eq!(principal.retained("nothing").unwrap(), Ok(None));
        principal.publish(InnerPublication { topic: "$SYS/x".into(), ..message }, 2).unwrap();
        assert_eq!(outcomes.recv(), Ok((2, Err(Reason::NotAuthorized))));
    }
}

#[test]
fn an_observer_hears_of_every_shard_and_holds_acknowledgements() {
    let node = Node::start(settings(3)).unwrap();
    let [tcp, ..] = addresses(&node);
    let handle = node.handle();
    let (sender, observed) = std::sync::mpsc::channel();
    let deliver: Deliver = Arc::new(move |message| sender.send(message).unwrap());
    let sink = |filter: &str| Observer {
        name: "sink".into(),
        filters: vec![filter.into()],
        tenant: None,
        window: ObserverWindow { messages: 30, bytes: 30_000 },
        policy: ObserverPolicy::Hold,
        refusal: Reason::ObserverRefused,
    };
    assert!(handle.insiders().observe(sink("a/#/b"), &deliver).is_err());
    let observing = handle.insiders().observe(sink("list"), &deliver).unwrap();
    for name in ["a", "b", "c", "d"] {
        let mut client = Client::connect(&tcp, name);
        // QoS 1, packet identifier 7.
        client.send(b"\x32\x09\x00\x04list\x00\x07x");
        let message = observed.recv().unwrap();
        assert_eq!((&*message.message().client_id, &*message.message().topic), (name, "list"));
        if name == "d" {
            // It is dropped unconfirmed, and an MQTT 3 client cannot be notified.
            drop(message);
            assert!(client.rest().is_empty());
        } else {
            message.confirm();
            client.expect(&[0x40, 2, 0, 7]);
        }
    }
    drop(observing);
    let mut client = Client::connect(&tcp, "e");
    client.send(b"\x32\x09\x00\x04list\x00\x07x");
    client.expect(&[0x40, 2, 0, 7]);
    assert!(observed.try_recv().is_err());
}
