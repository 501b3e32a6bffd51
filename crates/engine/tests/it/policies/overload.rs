//! Near the memory ceiling: publishers that fill it wait before any message is dropped.

use tidegate_engine::{Reason, Settings};
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::ReasonCode;

use super::stuck;
use crate::harness::*;

/// A low ceiling, and input that is not read far ahead. Messages that wait in a store take no memory.
fn low_ceiling(settings: &mut Settings) {
    settings.limits.memory_ceiling = 3_000_000;
    settings.limits.parked_bytes = 50_000;
    settings.limits.block_timeout_ms = seconds(30);
    settings.queue.max_messages = 100_000;
}

/// Sends a number of messages of five thousand bytes, some at a time as a network brings them.
fn flood(world: &World, name: &str, messages: u32) -> Client {
    let flood = world.connect(v5(name));
    for n in 0..messages {
        flood.send_publish(message("t", format!("{n:0>5000}")).qos1());
        if n % 8 == 7 {
            world.run();
        }
    }
    world.run();
    flood
}

#[test]
fn near_the_ceiling_publishers_wait_before_a_drop() {
    everywhere_in_memory(low_ceiling, |world| {
        let slow = stuck(world, &world.name_on(0, "slow"), "t");
        let quick = world.connect(v5(&world.name_on(0, "quick")));
        quick.subscribe("u", AtLeastOnce);
        let calm = world.connect(v5("calm"));
        let flood = flood(world, "flood", 600);
        assert_eq!(world.counters().dropped_total(), 0);
        assert!((2_000_000..3_000_000).contains(&world.gauges().queued_bytes), "{:?}", world.gauges());
        assert!(world.gauges().input_bytes < 100_000, "{:?}", world.gauges());
        assert_eq!(calm.publish(message("u", "still served").qos1()), ReasonCode::Success);
        assert_eq!(quick.payloads(), ["still served"]);
        let got = slow.drain();
        assert_eq!((got.len(), world.counters().dropped_total()), (600, 0));
        assert!(got.is_sorted());
        assert_eq!(flood.answers().len(), 600);
    });
}

#[test]
fn a_publisher_waits_for_memory_until_the_policies_decide() {
    everywhere_in_memory(low_ceiling, |world| {
        let slow = stuck(world, "slow", "t");
        let flood = flood(world, "flood", 600);
        assert_eq!(world.counters().dropped_total(), 0);
        world.advance(seconds(31));
        assert!(world.dropped(Reason::MemoryCeiling) > 0);
        assert_eq!(flood.answers().len(), 600);
        let before = world.counters().dropped_total();
        assert_eq!(slow.drain().len() as u64, 600 - before);
    });
}

#[test]
fn no_publisher_waits_for_an_offline_clients_queue() {
    everywhere_in_memory(low_ceiling, |world| {
        stuck(world, "away", "t").lose();
        let flood = flood(world, "flood", 600);
        assert_eq!(flood.answers().len(), 600);
        assert!(world.dropped(Reason::MemoryCeiling) > 0);
    });
}
