//! Messages between shards are bounded, and no wait is endless.

use tidegate_engine::{Millis, Reason};
use tidegate_mqtt::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};

use crate::harness::*;

/// Two shards, a publisher on the first and a subscriber on the second.
fn two_sides(limit: u64) -> (World, Client, Client) {
    let world = World::with(2, |settings| settings.limits.shard_link_bytes = limit);
    let subscriber = world.connect(v5(&world.name_on(1, "s")));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5(&world.name_on(0, "p")));
    (world, publisher, subscriber)
}

fn publish(publisher: &Client, count: u32, qos: QoS) {
    for number in 0..count {
        publisher.send_publish(message("t", number.to_string()).qos(qos));
    }
}

#[test]
fn every_limit_lets_everything_through_in_order() {
    for limit in [0, 1, 3, 10, 100, 1000, 100_000] {
        for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            let (world, publisher, subscriber) = two_sides(limit);
            publish(&publisher, 100, qos);
            let wanted: Vec<String> = (0..100).map(|number| number.to_string()).collect();
            assert_eq!(subscriber.payloads(), wanted, "limit {limit}, {qos:?}");
            let counters = world.counters();
            assert_eq!(counters.dropped_total(), 0);
            assert_eq!(counters.publishers_parked > 0, limit <= 1000, "limit {limit}: {}", counters.publishers_parked);
            // Less than a quarter of the limit may still be reported with the next records.
            assert!(world.gauges().link_bytes <= limit / 4 * 2, "limit {limit}: {}", world.gauges().link_bytes);
            assert_eq!((world.next_deadline(), world.batches_under_way()), (Millis::NEVER, 0));
        }
    }
}

#[test]
fn messages_under_way_to_an_idle_shard_are_bounded() {
    let (world, publisher, subscriber) = two_sides(10_000);
    world.hold(0, 1);
    for number in 0..1000_u32 {
        publisher.send_publish(message("t", format!("{number:0>1000}")).qos1());
    }
    world.run();
    let under_way = world.gauges().link_bytes;
    assert!((10_000..13_000).contains(&under_way), "{under_way}");
    assert!(publisher.is_paused(), "parked packets are bounded too, and the rest stays in the socket");
    world.release(0, 1);
    assert_eq!(subscriber.payloads().len(), 1000);
    assert!(!publisher.is_paused());
    assert_eq!((publisher.answers().len(), world.counters().dropped_total()), (1000, 0));
}

#[test]
fn a_publisher_continues_after_its_longest_wait() {
    let (world, publisher, subscriber) = two_sides(1000);
    world.hold(0, 1);
    for number in 0..4_u32 {
        publisher.send_publish(message("t", format!("{number:0>990}")));
    }
    world.run();
    assert_eq!(world.counters().publishers_parked, 1);
    // Each time it waits for the longest time, one message more is sent.
    world.advance(seconds(61));
    assert_eq!(world.counters().publishers_parked, 3);
    world.release(0, 1);
    assert_eq!(subscriber.payloads().len(), 4);
    assert_eq!(world.counters().dropped_total(), 0);
}

#[test]
fn a_full_link_stops_neither_other_publishers_nor_receivers() {
    let world = World::with(3, |settings| settings.limits.shard_link_bytes = 1000);
    let subscribers: Vec<Client> = (0..3).map(|shard| world.connect(v5(&world.name_on(shard, "s")))).collect();
    for (shard, subscriber) in subscribers.iter().enumerate() {
        subscriber.subscribe(&format!("to/{shard}"), AtLeastOnce);
    }
    let publishers: Vec<Client> = (0..3).map(|shard| world.connect(v5(&world.name_on(shard, "p")))).collect();
    world.hold(0, 1);
    for _ in 0..20 {
        publishers[0].send_publish(message("to/1", vec![b'x'; 300]).qos1());
    }
    world.run();
    publishers[0].ping();
    assert!(subscribers[1].payloads().is_empty());
    for _ in 0..20 {
        publishers[2].send_publish(message("to/1", "from 2").qos1());
        publishers[1].send_publish(message("to/2", "from 1").qos1());
        publishers[1].send_publish(message("to/0", "from 1").qos1());
    }
    world.run();
    assert_eq!(subscribers.iter().map(|subscriber| subscriber.payloads().len()).collect::<Vec<_>>(), [20, 20, 20]);
    world.release(0, 1);
    assert_eq!(subscribers[1].payloads().len(), 20);
    assert_eq!(world.dropped(Reason::ShardInboxFull), 0);
}

#[test]
fn a_full_link_parks_its_publishers_and_loses_nothing() {
    let world = World::with(2, |settings| settings.limits.shard_link_bytes = 1000);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    let subscriber = world.connect(v5(&there));
    subscriber.subscribe("t", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(0, 1);
    let wanted: Vec<String> = (1..=100).map(|number: u32| number.to_string()).collect();
    for number in &wanted {
        publisher.send_publish(message("t", number).qos1());
        world.run();
    }
    assert!(world.gauges().link_bytes < 2500, "{:?}", world.gauges());
    assert_eq!(world.counters().publishers_parked, 1);
    publisher.ping();
    world.release(0, 1);
    assert_eq!(subscriber.payloads(), wanted);
    assert_eq!(publisher.answers().len(), 100);
    assert_eq!(world.counters().dropped_total(), 0);
}

#[test]
fn full_links_both_ways_do_not_wait_for_each_other() {
    let world = World::with(2, |settings| settings.limits.shard_link_bytes = 300);
    let clients: Vec<Client> = (0..2)
        .map(|shard| {
            let client = world.connect(v5(&world.name_on(shard, "c")));
            client.subscribe(&format!("to/{shard}"), ExactlyOnce);
            client
        })
        .collect();
    for number in 0..300 {
        for (from, client) in clients.iter().enumerate() {
            client.send_publish(message(&format!("to/{}", 1 - from), number.to_string()).qos2());
        }
        if number % 10 == 0 {
            world.run();
        }
    }
    let wanted: Vec<String> = (0..300).map(|number: u32| number.to_string()).collect();
    for client in &clients {
        assert_eq!(client.payloads(), wanted);
    }
    assert_eq!(world.counters().dropped_total(), 0);
}
