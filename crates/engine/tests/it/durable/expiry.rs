//! Expired messages leave the store as well.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::AtLeastOnce;

use super::*;

/// A client that is away, and a number of messages for it; `expiry` says when each expires.
fn fill(world: &World, count: u32, expiry: impl Fn(u32) -> Option<u32>) -> Vec<String> {
    world.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    let mut stay = Vec::new();
    for number in 0..count {
        let new = message("t", number.to_string()).qos1();
        let expiry = expiry(number);
        if expiry.is_none() {
            stay.push(number.to_string());
        }
        publisher.publish(if let Some(seconds) = expiry { new.expiry(seconds) } else { new });
    }
    stay
}

fn small(settings: &mut tidegate_engine::Settings) {
    settings.queue.memory_bytes = 2_000;
}

#[test]
fn what_expires_while_its_client_is_away_leaves_the_store() {
    for shards in [1, 2] {
        let world = stored_with(shards, |_| {});
        let stay = fill(&world, 20, |number| (!number.is_multiple_of(3)).then_some(5));
        world.advance(seconds(7));
        assert_eq!(world.dropped(Reason::MessageExpired), 13);
        assert_eq!(world.gauges().queued_messages, 7);
        world.crash(Crash::now(shards));
        assert_eq!(world.gauges().queued_messages, 7);
        assert_eq!(world.connect(v5("a").lasting()).payloads(), stay);
    }
}

#[test]
fn what_expires_in_the_store_alone_makes_room_and_leaves_it() {
    for mixed in [false, true] {
        let world = stored_with(1, |settings| {
            small(settings);
            settings.queue.max_messages = 100;
        });
        let expiry = |number: u32| {
            if mixed && number.is_multiple_of(3) { None } else { Some(if mixed { 2 + number * 7 % 5 } else { 5 }) }
        };
        let mut stay = fill(&world, 100, expiry);
        assert!(world.gauges().stored_messages > 80);
        world.advance(seconds(8));
        let gauges = world.gauges();
        assert_eq!(gauges.queued_messages + gauges.stored_messages, stay.len() as u64);
        assert_eq!(world.dropped(Reason::MessageExpired), 100 - stay.len() as u64);
        let publisher = world.connect(v5("q"));
        for number in 1000..1050 {
            publisher.publish(message("t", number.to_string()).qos1());
            stay.push(number.to_string());
        }
        assert_eq!(world.dropped(Reason::QueueFullNewest), 0);
        let before = owed(&world);
        world.crash(Crash::now(1));
        assert_eq!(owed(&world), before);
        assert_eq!(world.connect(v5("a").lasting()).payloads(), stay);
        world.run();
        assert_eq!((world.gauges().stored_messages, world.gauges().stored_bytes), (0, 0));
    }
}

#[test]
fn what_expires_after_a_restart_leaves_the_store() {
    let world = stored_with(1, small);
    let stay = fill(&world, 100, |number| (!number.is_multiple_of(10)).then_some(20 + number % 7));
    world.crash(Crash::now(1));
    let gauges = world.gauges();
    assert_eq!(gauges.queued_messages + gauges.stored_messages, 100);
    world.advance(seconds(30));
    let gauges = world.gauges();
    assert_eq!(gauges.queued_messages + gauges.stored_messages, 10);
    world.crash(Crash::now(1));
    assert_eq!(world.connect(v5("a").lasting()).payloads(), stay);
}

#[test]
fn a_queue_that_is_being_read_may_expire() {
    let world = stored_with(1, |settings| {
        small(settings);
        settings.limits.max_inflight = 3;
    });
    fill(&world, 200, |number| Some(5 + number % 3));
    let client = world.connect(v5("a").lasting().manual());
    assert_eq!(client.payloads(), ["0", "1", "2"]);
    world.advance(seconds(10));
    client.drain();
    world.run();
    let gauges = world.gauges();
    assert_eq!((gauges.stored_messages, gauges.stored_bytes, gauges.queued_messages), (0, 0, 0));
}
