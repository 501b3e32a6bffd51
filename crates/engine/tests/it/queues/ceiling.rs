//! The ceiling of memory: above it new work is refused, below it it is taken again.

use tidegate_engine::{OverflowPolicy, Reason, Settings};
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

#[test]
fn new_work_is_refused_only_above_the_memory_ceiling() {
    let ceiling = |overflow| {
        move |settings: &mut Settings| {
            settings.limits.memory_ceiling = 100_000;
            settings.queue.overflow = overflow;
        }
    };
    for overflow in [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest, OverflowPolicy::Block] {
        let world = World::with(1, ceiling(overflow));
        let publisher = world.connect(v5("p"));
        for number in 0..10 {
            let name = format!("s{number}");
            world.absent_subscriber(v5(&name).lasting(), &name, AtLeastOnce);
        }
        for number in 0..1000 {
            publisher.publish(message(&format!("s{}", number % 10), vec![b'x'; 1000]).qos1());
        }
        let gauges = world.gauges();
        assert!(gauges.queued_bytes < 110_000, "{overflow:?}: {gauges:?}");
        assert!(gauges.queued_bytes > 50_000, "{overflow:?}: {gauges:?}");
        assert_eq!(gauges.queued_messages + world.counters().dropped_total(), 1000, "{overflow:?}");
        assert_eq!(world.refuses(0), None, "{overflow:?}: queues alone refuse no client");
    }
}

#[test]
fn a_shard_full_of_waiting_messages_lets_their_readers_in() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 50_000);
    world.absent_subscriber(v5("s").lasting(), "t", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    for _ in 0..100 {
        publisher.publish(message("t", vec![b'x'; 1000]).qos1());
    }
    assert!(world.dropped(Reason::MemoryCeiling) > 0);
    let connecting = v5("s").lasting();
    let mut subscriber = world.open(&connecting);
    // Byte by byte, so that a part of a packet waits as well.
    for byte in connecting.encode() {
        subscriber.send_bytes(&[byte]);
        world.run();
    }
    subscriber.expect_accepted();
    assert!(subscriber.messages().len() > 30);
    publisher.publish(message("t", "after").qos1());
    subscriber.expect_publish("t", "after");
}

#[test]
fn a_shard_full_of_parts_of_packets_refuses_connections() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 50_000);
    let clients: Vec<Client> = (0..10).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    for client in &clients {
        client.send_bytes(&message("t", vec![b'x'; 12_000]).encode(tidegate_mqtt::Version::V5)[..10_000]);
        world.run();
    }
    let closed = clients.iter().filter(|client| client.closed() == Some(Reason::MemoryCeiling)).count();
    assert!((3..=5).contains(&closed), "{closed}");
    assert!(world.gauges().input_bytes <= 70_000);
}

/// A start under a lower ceiling, or a lowered one: who comes to take messages is let in.
#[test]
fn a_lowered_ceiling_refuses_no_client_that_empties_its_queue() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 1_000_000);
    let lower = || {
        let mut settings = Settings::default();
        settings.limits.memory_ceiling = 50_000;
        world.engine(0, |engine, _| engine.control().set_limits(&settings));
    };
    world.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    for _ in 0..20 {
        publisher.publish(message("t", vec![b'x'; 10_000]).qos1());
    }
    lower();
    assert_eq!(world.refuses(0), None);
    assert_eq!(world.connect(v5("a").lasting()).payloads().len(), 20);
    world.run();
    // The excess is gone: the usual bound holds.
    let clients: Vec<Client> = (0..10).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    for client in &clients {
        client.send_bytes(&message("t", vec![b'x'; 12_000]).encode(tidegate_mqtt::Version::V5)[..10_000]);
        world.run();
    }
    assert!(world.gauges().input_bytes <= 70_000);
}

#[test]
fn unfinished_connects_take_a_part_of_the_ceiling() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 200_000);
    let client = world.connect(v5("client"));
    let large = |number: usize| v5(&format!("s{number}")).will(message("w", vec![b'x'; 12_000]));
    let mut strangers: Vec<Client> = (0..20).map(|number| world.open(&large(number))).collect();
    for (number, stranger) in strangers.iter().enumerate() {
        stranger.send_bytes(&large(number).encode()[..10_000]);
        world.run();
    }
    let closed = strangers.iter().filter(|stranger| stranger.closed() == Some(Reason::MemoryCeiling)).count();
    assert_eq!(closed, 18, "two of them fill an eighth of the ceiling, and the third is beyond it");
    assert!(world.gauges().input_bytes <= 25_000);
    client.subscribe("t", AtLeastOnce);
    strangers[0].send_bytes(&large(0).encode()[10_000..]);
    world.run();
    strangers[0].expect_accepted();
    assert_eq!(world.refuses(0), None);
}

#[test]
fn parked_packets_refuse_no_unfinished_connect() {
    let world = World::with(1, |settings| {
        settings.limits.memory_ceiling = 400_000;
        settings.queue.overflow = OverflowPolicy::Block;
        settings.queue.max_messages = 1;
        settings.limits.parked_bytes = 200_000;
    });
    let slow = world.connect(v5("slow").lasting().receive_maximum(1).manual());
    slow.subscribe("t", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    for _ in 0..8 {
        publisher.publish_later(message("t", vec![b'x'; 12_000]).qos1());
    }
    world.run();
    assert!(world.gauges().input_bytes > 50_000, "more than an eighth is parked: {:?}", world.gauges());
    let large = v5("s").will(message("w", vec![b'x'; 12_000]));
    let stranger = world.open(&large);
    stranger.send_bytes(&large.encode()[..10_000]);
    world.run();
    assert_eq!(stranger.closed(), None);
}

/// Messages to clients that are there only pass through: above the ceiling none is acknowledged and dropped.
#[test]
fn above_the_ceiling_live_clients_lose_no_acknowledged_message() {
    for (receive_maximum, far) in [(10, false), (10, true), (1, false), (1, true)] {
        let world = World::with(1, |settings| {
            settings.limits.memory_ceiling = 1_000_000;
            settings.queue.overflow = OverflowPolicy::Reject;
        });
        let away = world.connect(v5("away").lasting());
        away.subscribe("away", AtLeastOnce);
        away.lose();
        let live = world.connect(v5("live").lasting().receive_maximum(receive_maximum).manual());
        live.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        while publisher.publish(message("away", vec![b'x'; 40_000]).qos1()) == ReasonCode::Success {}
        if far {
            let mut lower = Settings::default();
            lower.limits.memory_ceiling = 500_000;
            lower.queue.overflow = OverflowPolicy::Reject;
            world.engine(0, |engine, _| engine.control().set_limits(&lower));
        }
        let codes: Vec<_> = (0..5).map(|_| publisher.publish(message("t", vec![b'x'; 40_000]).qos1())).collect();
        let taken = codes.iter().filter(|code| **code == ReasonCode::Success).count();
        let case = format!("receive maximum {receive_maximum}, far {far}: {codes:?}");
        assert_eq!(taken, usize::from(receive_maximum).min(5), "{case}");
        assert_eq!(world.dropped(Reason::MemoryCeiling), 0, "{case}");
        assert_eq!(live.messages().len(), taken, "{case}");
    }
}

/// A reload with the same ceiling allows no bytes above it.
#[test]
fn a_reload_raises_no_bound_of_memory() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 50_000);
    let mut settings = Settings::default();
    settings.limits.memory_ceiling = 50_000;
    let clients: Vec<Client> = (0..10).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    for client in &clients {
        client.send_bytes(&message("t", vec![b'x'; 12_000]).encode(tidegate_mqtt::Version::V5)[..10_000]);
        world.run();
        world.engine(0, |engine, _| engine.control().set_limits(&settings));
    }
    assert!(world.gauges().input_bytes <= 70_000, "{:?}", world.gauges());
}

#[test]
fn wills_count_for_the_ceiling_and_are_refused_above_it() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 50_000);
    let with_will =
        |number: usize| v5(&format!("c{number}")).lasting().will(message("w", vec![b'x'; 10_000]).delay(60));
    // All are there before the first will is.
    let opened: Vec<Client> = (0..10).map(|number| world.open(&with_will(number))).collect();
    for (number, client) in opened.iter().enumerate() {
        client.send_bytes(&with_will(number).encode());
        world.run();
    }
    let there: Vec<&Client> = opened.iter().filter(|client| client.closed().is_none()).collect();
    assert!((5..=7).contains(&there.len()), "{}", there.len());
    assert_eq!(world.refuses(0), Some(Reason::MemoryCeiling));
    for client in there {
        client.disconnect();
    }
    assert_eq!(world.refuses(0), None, "a DISCONNECT removes the will");
}

#[test]
fn subscriptions_count_for_the_ceiling_and_may_be_renewed() {
    everywhere_with(
        |settings| settings.limits.memory_ceiling = 200_000,
        |world| {
            let subscriber = world.connect(v5("s"));
            let filter = |number: usize| format!("{number}/{}#", "long/".repeat(100));
            let ask = |number: usize| {
                let options = SubscriptionOptions::new(AtLeastOnce);
                subscriber.expect_sub_ack(subscriber.send_subscribe(&[(&filter(number), options)], None))[0]
            };
            let granted = (0..100).take_while(|number| ask(*number) == ReasonCode::GrantedQos1).count();
            assert!((5..50).contains(&granted), "{granted}");
            assert_eq!(ask(granted), ReasonCode::QuotaExceeded);
            assert_eq!(ask(0), ReasonCode::GrantedQos1, "it is there already");
            for number in 0..granted {
                subscriber.unsubscribe(&filter(number));
            }
            assert_eq!(ask(granted), ReasonCode::GrantedQos1, "the others have made room");
        },
    );
}
