//! Packets with many filters are handled in steps: the work of a turn is bounded, and their clients' later packets
//! wait.

use tidegate_engine::Reason;
use tidegate_mqtt::{Packet, PacketId, PacketType, PingReq, QoS, ReasonCode, SubscriptionOptions};
use tidegate_mqtt::{TopicFilter, TopicFilters, Unsubscribe, UserProperties};

use crate::harness::*;

const FILTERS: usize = 1000;
/// The most work of a turn: the last filter of a share may be worth two, and the first packet of a turn has its own.
const PER_TURN: u64 = 2 * 66;

fn names() -> Vec<String> {
    (0..FILTERS).map(|number| format!("s/{number}/+")).collect()
}

fn subscribe(client: &Client) -> PacketId {
    let names = names();
    let filters: Vec<_> =
        names.iter().map(|name| (name.as_str(), SubscriptionOptions::new(QoS::AtLeastOnce))).collect();
    client.send_subscribe(&filters, None)
}

fn unsubscribe(client: &Client) -> PacketId {
    let names = names();
    let filters: Vec<_> = names.iter().map(|name| TopicFilter::new(name).unwrap()).collect();
    let packet_id = client.next_id();
    client.send(&Packet::Unsubscribe(Unsubscribe {
        packet_id,
        user_properties: UserProperties::EMPTY,
        topic_filters: TopicFilters::new(&filters),
    }));
    packet_id
}

/// Takes turns until the number of subscriptions is reached; says how many it took.
fn turns_until(world: &World, subscriptions: u64) -> usize {
    for turn in 0..FILTERS {
        let before = world.gauges().subscriptions;
        if before == subscriptions {
            return turn;
        }
        world.turns();
        let done = world.gauges().subscriptions.abs_diff(before);
        assert!(done > 0 && done <= PER_TURN, "{done} filters in a turn");
    }
    panic!("no end");
}

#[test]
fn many_filters_take_their_turns() {
    let world = World::with(1, |_| ());
    let client = world.connect(v5("many"));
    let id = subscribe(&client);
    assert!(turns_until(&world, FILTERS as u64) > 5);
    assert_eq!(client.expect_sub_ack(id), vec![ReasonCode::GrantedQos1; FILTERS]);
    let id = unsubscribe(&client);
    assert!(turns_until(&world, 0) > 5);
    let arrival = client.expect(PacketType::UnsubAck);
    let Packet::UnsubAck(ack) = arrival.packet() else { panic!("no UNSUBACK") };
    assert_eq!((ack.packet_id, ack.reason_codes.iter().collect()), (id, vec![ReasonCode::Success; FILTERS]));
}

#[test]
fn later_packets_wait_for_many_filters() {
    let world = World::with(1, |_| ());
    let client = world.connect(v5("many"));
    let first = subscribe(&client);
    let second = unsubscribe(&client);
    client.send_publish(message("s/1/x", "late"));
    client.send_bytes(&PingReq::BYTES);
    client.expect(PacketType::PingResp);
    assert_eq!(client.expect_sub_ack(first).len(), FILTERS);
    let arrival = client.expect(PacketType::UnsubAck);
    let Packet::UnsubAck(ack) = arrival.packet() else { panic!("no UNSUBACK") };
    assert_eq!(ack.packet_id, second);
    client.expect_nothing();
    assert_eq!(world.gauges().subscriptions, 0);
}

#[test]
fn a_client_that_leaves_has_its_filters_worked_off() {
    let world = World::with(1, |_| ());
    let client = world.connect(v5("many").expiry(100));
    subscribe(&client);
    world.turns();
    client.lose();
    world.run();
    assert_eq!(world.gauges().subscriptions, FILTERS as u64);
    world.advance(seconds(101));
    assert_eq!((world.gauges().subscriptions, world.gauges().input_bytes), (0, 0));
}

#[test]
fn a_client_whose_suback_is_too_large_publishes_nothing_more() {
    let world = World::with(1, |_| ());
    let other = world.connect(v5("other"));
    other.subscribe("t", QoS::AtMostOnce);
    let client = world.connect(v5("many").max_packet(100));
    subscribe(&client);
    client.send_publish(message("t", "late"));
    world.run();
    assert_eq!(client.closed(), Some(Reason::PacketTooLarge));
    other.expect_nothing();
}

#[test]
fn a_takeover_ends_the_rest_of_a_packet() {
    let world = World::with(1, |_| ());
    let client = world.connect(v5("many").expiry(100));
    subscribe(&client);
    world.turns();
    let again = world.connect(v5("many").clean(false).expiry(100));
    assert!(again.session_present());
    client.expect_disconnect(ReasonCode::SessionTakenOver);
    assert!(world.gauges().subscriptions < FILTERS as u64);
    assert_eq!(world.gauges().input_bytes, 0);
}

#[test]
fn many_filters_are_confirmed_by_all_shards() {
    let world = World::with(3, |_| ());
    let client = world.connect(v5("many"));
    let publisher = world.connect(v5("other"));
    let id = subscribe(&client);
    assert_eq!(client.expect_sub_ack(id), vec![ReasonCode::GrantedQos1; FILTERS]);
    publisher.publish(message("s/999/x", "here").qos1());
    assert_eq!(client.payloads(), ["here"]);
}

#[test]
fn a_crowd_with_few_filters_does_not_wait() {
    let world = World::with(1, |_| ());
    let clients: Vec<_> = (0..100).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    for client in &clients {
        client.send_subscribe(&[("a/+", SubscriptionOptions::new(QoS::AtMostOnce))], None);
    }
    world.turns();
    assert_eq!(world.gauges().subscriptions, 100);
}
