//! Publishers that another node has asked to wait, or that wait because of one, when that node is gone: none waits for
//! its limit.

use tidegate_engine::{OverflowPolicy, Partitions, Reason, TenantId, partition_of};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

/// A subscriber on node 0, one on node 1 that has one message in flight and takes no other, and a publisher on node 0.
fn scene(world: &World, publisher: fn(&str) -> Connecting) -> [Client; 3] {
    let here = world.connect(v5(&world.name_on(0, "here ")));
    here.subscribe("t", AtLeastOnce);
    let stuck = world.connect(v5(&world.name_on(1, "stuck ")).lasting().receive_maximum(1).manual());
    stuck.subscribe("t", AtLeastOnce);
    [here, stuck, world.connect(publisher(&world.name_on(0, "publisher ")))]
}

fn numbers(count: usize) -> Vec<String> {
    (1..=count).map(|number| number.to_string()).collect()
}

#[test]
fn a_publisher_waiting_for_a_dead_nodes_queue_continues() {
    for policy in [OverflowPolicy::Block, OverflowPolicy::Reject] {
        let world = World::cluster(2, 1, |settings| {
            settings.queue.overflow = policy;
            settings.queue.max_messages = 2;
        });
        let [here, _stuck, publisher] = scene(&world, v311);
        for number in numbers(6) {
            publisher.send_publish(message("t", number).qos1());
            world.run();
        }
        let before = publisher.answers().len();
        assert!((3..6).contains(&before), "{policy:?}: {before} are answered");
        world.end_node(1);
        assert_eq!(here.payloads(), numbers(6), "{policy:?}");
        assert_eq!(before + publisher.answers().len(), 6, "{policy:?}");
    }
}

#[test]
fn a_publisher_held_by_a_dead_nodes_long_turns_continues() {
    let world = World::cluster(2, 1, |settings| settings.limits.memory_ceiling = 1 << 40);
    let [here, there, publisher] = ["here ", "there ", "publisher "]
        .map(|stem| world.connect(v5(&world.name_on(u16::from(stem == "there "), stem))));
    here.subscribe("t", AtLeastOnce);
    there.subscribe("t", AtLeastOnce);
    let mut sent = 0;
    let mut second = |count: usize| {
        world.engine(1, |engine, now| engine.control().note_loop_lag(now, now.monotonic.plus(seconds(3)), true));
        for _ in 0..count {
            sent += 1;
            publisher.send_publish(message("t", format!("{sent:0>2000}")).qos1());
            world.run();
        }
        sent
    };
    second(40);
    world.advance(seconds(1));
    let sent = second(100);
    let before = publisher.answers().len();
    assert!(before < sent, "it waits");
    world.end_node(1);
    assert_eq!(here.payloads().len(), sent);
    assert_eq!(before + publisher.answers().len(), sent);
}

#[test]
fn messages_waiting_for_a_dead_nodes_link_are_not_lost() {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let world = World::cluster(2, 1, |settings| settings.limits.shard_link_bytes = 1000);
        let there = world.connect(v5(&world.name_on(1, "there ")));
        there.subscribe("t", qos);
        let publisher = world.connect(v5(&world.name_on(0, "publisher ")));
        world.hold(0, 1);
        for number in 0..50_u32 {
            publisher.send_publish(message("t", format!("{number:0>100}")));
        }
        publisher.send_publish(message("t", "x").qos(qos));
        world.run();
        assert_eq!(world.counters().publishers_parked, 1);
        // Another node is to take over: no publisher may learn yet that this message has arrived.
        world.await_node(1);
        publisher.expect_disconnect(ReasonCode::ServerBusy);
        assert_eq!(publisher.expect_closed(), Reason::NodeLost);
    }
}

#[test]
fn a_publisher_waiting_for_a_moving_queue_continues() {
    let world = World::with(1, |settings| {
        settings.queue.overflow = OverflowPolicy::Reject;
        settings.queue.max_messages = 1;
    });
    let away = world.connect(v5("away").lasting());
    away.subscribe("t", AtLeastOnce);
    away.lose();
    let publisher = world.connect(v311("publisher"));
    publisher.publish(message("t", "1").qos1());
    publisher.send_publish(message("t", "2").qos1());
    world.run();
    assert!(publisher.answers().is_empty(), "there is no room");
    let partition = partition_of(TenantId::DEFAULT, "away");
    let moving = Partitions::from_iter([partition]);
    world.engine(0, |engine, now| {
        engine.moves().hold_partitions(now, moving, None);
        engine.moves().forget_partitions(now, moving);
    });
    world.run();
    assert_eq!(publisher.answers().len(), 1);
}
