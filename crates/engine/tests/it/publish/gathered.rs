//! PUBACKs of messages that come in one read: behind other output, in the order of the messages, and before the end of
//! the connection.

use std::sync::Arc;

use tidegate_engine::{
    ConnectionKey, Durability, Engine, ListenerId, Millis, Now, OverflowPolicy, Settings, ShardPosition,
};
use tidegate_mqtt::PacketType::{PubAck, PubComp, PubRec, UnsubAck};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{Disconnect, Packet, PacketType, PubRel, ReasonCode, Version};

use crate::harness::*;

/// The types of all packets that have come, in order.
fn arrived(world: &World, client: &Client) -> Vec<PacketType> {
    world.run();
    std::iter::from_fn(|| client.take_arrival()).map(|arrival| arrival.packet_type()).collect()
}

/// Messages of one read, with packet ids from 1 on.
fn send_some(client: &Client, topic: &str, count: u16) {
    for number in 1..=count {
        client.send_publish(message(topic, "x").qos1().id(number));
    }
}

#[test]
fn pub_acks_of_one_read_follow_its_messages() {
    let world = World::new(1);
    let client = world.connect(v5("a").manual());
    client.subscribe("t", AtLeastOnce);
    send_some(&client, "t", 3);
    world.run();
    for _ in 0..3 {
        client.expect_publish("t", "x");
    }
    let ids = (0..3).map(|_| match client.expect(PubAck).packet() {
        Packet::PubAck(ack) => ack.packet_id.get(),
        other => panic!("{other:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(world.engine(0, |engine, _| engine.questions().counters().packets_out[PubAck as usize]), 3);
}

#[test]
fn answers_of_one_read_have_the_order_of_its_packets() {
    let world = World::new(1);
    world.connect(v5("b")).subscribe("t", AtLeastOnce);
    let client = world.connect(v5("a").manual());
    client.send_publish(message("t", "x").qos1().id(1));
    client.send_publish(message("t", "x").qos2().id(2));
    client.send_publish(message("t", "x").qos1().id(3));
    client.send_publish(message("lonely", "x").qos1().id(4));
    client.send_publish(message("t", "x").qos1().id(5));
    client.send_unsubscribe("t");
    assert_eq!(arrived(&world, &client), [PubAck, PubRec, PubAck, PubAck, PubAck, UnsubAck]);
}

#[test]
fn pub_acks_leave_before_the_end_of_a_connection() {
    let world = World::new(1);
    world.connect(v5("b")).subscribe("t", AtLeastOnce);
    let client = world.connect(v5("a").manual());
    send_some(&client, "t", 2);
    client.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    assert_eq!(arrived(&world, &client), [PubAck, PubAck]);
    let client = world.connect(v5("a").manual());
    send_some(&client, "t", 2);
    // A second CONNECT is a protocol error.
    client.send_bytes(&v5("a").encode());
    assert_eq!(arrived(&world, &client), [PubAck, PubAck, PacketType::Disconnect]);
}

#[test]
fn pub_acks_without_a_promise_do_not_wait_in_a_read() {
    let world = World::with(1, |settings| settings.durability = Durability::Commit);
    world.connect(v5("kept").lasting()).subscribe("kept", AtLeastOnce);
    world.connect(v5("brief")).subscribe("brief", AtLeastOnce);
    let client = world.connect(v5("a").manual());
    world.hold_commits();
    for (number, topic) in ["brief", "brief", "kept", "kept", "brief"].into_iter().enumerate() {
        client.send_publish(message(topic, "x").qos1().id(1 + number as u16));
    }
    assert_eq!(arrived(&world, &client).len(), 2, "nothing is promised");
    world.release_commits();
    assert_eq!(arrived(&world, &client).len(), 3);
}

#[test]
fn pub_acks_do_not_wait_for_the_end_of_an_exchange() {
    let world = World::with(1, |settings| settings.durability = Durability::Commit);
    world.connect(v5("brief")).subscribe("brief", AtLeastOnce);
    let client = world.connect(v5("a").lasting().manual());
    client.send_publish(message("brief", "x").qos2().id(1));
    assert_eq!(arrived(&world, &client), [PubRec]);
    world.hold_commits();
    client.send_publish(message("brief", "x").qos1().id(2));
    client.send(&Packet::PubRel(PubRel::new(id(1), ReasonCode::Success)));
    assert_eq!(arrived(&world, &client), [PubAck], "nothing is promised");
    world.release_commits();
    assert_eq!(arrived(&world, &client), [PubComp]);
}

const NOW: Now = Now { monotonic: Millis(1000), unix: 0 };

fn enter(engine: &mut Engine, name: &str, behind: &[u8]) -> ConnectionKey {
    let key = engine.open_connection(NOW, ListenerId(0)).expect("no limit is reached");
    let mut bytes = v5(name).encode();
    bytes.extend_from_slice(behind);
    engine.handle_input(NOW, key, &bytes);
    key
}

/// The connections that the shell writes in this turn.
fn written_first(engine: &mut Engine) -> Vec<ConnectionKey> {
    let first = std::iter::from_fn(|| engine.outputs().pop_first()).collect();
    while engine.outputs().pop_in_line().is_some() {}
    first
}

#[test]
fn pub_acks_leave_in_their_turn_behind_many_receivers() {
    let mut engine = Engine::new(Arc::new(Settings::default()), ShardPosition::ALONE, 1, NOW);
    let mut messages = Vec::new();
    for number in 10..90 {
        let subscribe = [&[0x82, 8, 0, 1, 0, 0, 2][..], number.to_string().as_bytes(), &[0]].concat();
        enter(&mut engine, &format!("s{number}"), &subscribe);
        messages.extend(message(&number.to_string(), "x").qos1().id(number).encode(Version::V5));
    }
    let publisher = enter(&mut engine, "p", &[]);
    written_first(&mut engine);
    if let Some(output) = engine.output(publisher) {
        output.advance(output.len());
    }
    engine.handle_input(NOW, publisher, &messages);
    assert_eq!(engine.output(publisher).map(|output| output.len()), Some(80 * 4));
    assert!(written_first(&mut engine).contains(&publisher), "its answers stand in line");
}

/// Messages of one client to several kinds of topics. Its quota or full queues may hold some back.
fn answers_in_order(seed: u64) {
    let mut random = Random::salted(seed, 7);
    let (rate, block, shards) = (random.percent(40), random.percent(40), random.pick(&[1, 1, 3]));
    let world = World::seeded(shards, seed, "answers in order", |settings| {
        settings.durability = random.pick(&[Durability::Commit, Durability::Memory]);
        settings.listeners[0].max_message_rate = if rate { 20 } else { 0 };
        settings.listeners[0].receive_maximum = 1_000;
        if block {
            settings.queue.overflow = OverflowPolicy::Block;
            settings.queue.max_messages = 2;
        }
    });
    world.connect(v5("kept").lasting().receive_maximum(2)).subscribe("kept", AtLeastOnce);
    world.connect(v5("brief").receive_maximum(1)).subscribe("brief", AtLeastOnce);
    let client = world.connect(if random.percent(50) { v5("a") } else { v311("a") });
    client.subscribe("own", AtLeastOnce);
    for number in 1..=60 {
        let topic = random.pick(&["kept", "brief", "own", "lonely"]);
        let qos = if random.percent(20) { ExactlyOnce } else { AtLeastOnce };
        client.send_publish(message(topic, "x").qos(qos).id(number));
        if random.percent(10) {
            world.run_some(random.below(20));
        }
    }
    world.advance(seconds(30));
    let answers = client.answers().into_iter().filter(|(kind, ..)| *kind != PubComp);
    assert_eq!(answers.map(|(_, id, _)| id).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>(), "seed {seed}");
}

#[test]
fn each_message_is_answered_once_and_in_order() {
    for seed in 0..60 {
        answers_in_order(seed);
    }
}
