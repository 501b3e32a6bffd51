//! Packets with many filters are handled in steps: the work of a turn is bounded, and their clients' later packets
//! wait.

use tidegate_engine::Reason;
use tidegate_mqtt::{Packet, PacketId, PacketType, PingReq, QoS, ReasonCode, RetainHandling, SubscriptionOptions};
use tidegate_mqtt::{TopicFilter, TopicFilters, Unsubscribe, UserProperties};

use crate::harness::*;

const FILTERS: usize = 1000;
/// The most work of a turn: the last filter of a share may be worth two, and the first packet of a turn has its own.
const PER_TURN: u64 = 2 * 34;

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

/// The most retained values that reach a client in one turn.
const VALUES_PER_TURN: u64 = 2 * 64;

/// Publishes retained values; returns their topics.
fn retain_values(world: &World) -> Vec<String> {
    let topics: Vec<String> = (0..FILTERS).map(|number| format!("v/{number:03}")).collect();
    let publisher = world.connect(v5("publisher"));
    for topic in &topics {
        publisher.send_publish(message(topic, "x").retain());
    }
    world.run();
    topics
}

fn at_most_once(topics: &[String]) -> Vec<(&str, SubscriptionOptions)> {
    topics.iter().map(|topic| (topic.as_str(), SubscriptionOptions::new(QoS::AtMostOnce))).collect()
}

/// Publishes retained values, and subscribes to each of their topics until all are subscribed to.
fn subscribe_to_values(world: &World) -> (Client, Vec<String>) {
    let topics = retain_values(world);
    let client = world.connect(v5("many").expiry(100));
    client.send_subscribe(&at_most_once(&topics), Some(1));
    while world.gauges().subscriptions < FILTERS as u64 {
        world.turns();
    }
    (client, topics)
}

/// Topics of the messages that have come, in their order.
fn topics_of(client: &Client) -> Vec<String> {
    let mut topics: Vec<String> = client.messages_among_others().into_iter().map(|got| got.topic).collect();
    topics.sort_unstable();
    topics
}

#[test]
fn retained_values_of_many_filters_come_in_turns() {
    let world = World::with(1, |_| ());
    let (client, topics) = subscribe_to_values(&world);
    let sent = || world.counters().messages_out[0];
    let mut before = sent();
    assert!(before <= VALUES_PER_TURN, "{before} values in a turn");
    while before < FILTERS as u64 {
        world.turns();
        let now = sent();
        assert!(now > before && now - before <= VALUES_PER_TURN, "{} values in a turn", now - before);
        before = now;
    }
    assert_eq!(topics_of(&client), topics);
}

#[test]
fn an_ended_subscription_gets_no_retained_value_later() {
    let world = World::with(1, |_| ());
    let (client, topics) = subscribe_to_values(&world);
    let filters: Vec<_> = topics.iter().map(|name| TopicFilter::new(name).unwrap()).collect();
    let packet_id = client.next_id();
    client.send(&Packet::Unsubscribe(Unsubscribe {
        packet_id,
        user_properties: UserProperties::EMPTY,
        topic_filters: TopicFilters::new(&filters[FILTERS / 2..]),
    }));
    let got = topics_of(&client);
    assert!(got.len() < FILTERS, "{} values", got.len());
    assert_eq!(got[..FILTERS / 2], topics[..FILTERS / 2]);
}

#[test]
fn retained_values_that_wait_come_to_the_next_connection() {
    let world = World::with(1, |_| ());
    let (client, topics) = subscribe_to_values(&world);
    let again = world.connect(v5("many").clean(false).expiry(100));
    assert!(again.session_present());
    let (old, new) = (topics_of(&client), topics_of(&again));
    assert!(!new.is_empty());
    let got: std::collections::BTreeSet<String> = old.into_iter().chain(new).collect();
    assert_eq!(got.into_iter().collect::<Vec<_>>(), topics);
}

/// Unsubscribes from one filter and does not wait.
fn send_unsubscribe(client: &Client, filter: &str) {
    let packet_id = client.next_id();
    client.send(&Packet::Unsubscribe(Unsubscribe {
        packet_id,
        user_properties: UserProperties::EMPTY,
        topic_filters: TopicFilters::new(&[TopicFilter::new(filter).unwrap()]),
    }));
}

/// The subscription identifiers of the values of the last topic that have come.
fn identifiers_of_last(client: &Client, topics: &[String]) -> Vec<Vec<u32>> {
    let last = topics.last().unwrap();
    let got = client.messages_among_others().into_iter().filter(|got| got.topic == *last);
    got.map(|got| got.subscription_ids).collect()
}

fn with_handling(retain_handling: RetainHandling) -> SubscriptionOptions {
    SubscriptionOptions { retain_handling, ..SubscriptionOptions::new(QoS::AtMostOnce) }
}

#[test]
fn a_newer_subscription_ends_a_search_that_waits() {
    let world = World::with(1, |_| ());
    let (client, topics) = subscribe_to_values(&world);
    client.send_subscribe(&[(&topics[FILTERS - 1], with_handling(RetainHandling::SendAtSubscribe))], Some(2));
    assert_eq!(identifiers_of_last(&client, &topics), [[2]]);
}

#[test]
fn a_search_that_waits_has_the_options_of_now() {
    let world = World::with(1, |_| ());
    let (client, topics) = subscribe_to_values(&world);
    client.send_subscribe(&[(&topics[FILTERS - 1], with_handling(RetainHandling::SendIfNew))], Some(2));
    assert_eq!(identifiers_of_last(&client, &topics), [[2]]);
}

#[test]
fn a_client_that_refuses_retained_values_gets_none_later() {
    let world = World::with(1, |_| ());
    let (client, topics) = subscribe_to_values(&world);
    let last = &topics[FILTERS - 1];
    send_unsubscribe(&client, last);
    client.send_subscribe(&[(last, with_handling(RetainHandling::DoNotSend))], Some(2));
    assert_eq!(identifiers_of_last(&client, &topics), [[0; 0]; 0]);
}

#[test]
fn a_client_with_few_filters_is_not_behind_many() {
    const FEW: usize = 9;
    let world = World::with(1, |_| ());
    let topics = retain_values(&world);
    let (many, few) = (world.connect(v5("many")), world.connect(v5("few")));
    many.send_subscribe(&at_most_once(&topics), None);
    while world.gauges().subscriptions < FILTERS as u64 {
        world.turns();
    }
    few.send_subscribe(&at_most_once(&topics[..FEW]), None);
    (0..4).for_each(|_| world.turns());
    let arrivals = std::iter::from_fn(|| few.take_arrival());
    let early: Vec<_> = arrivals.filter_map(|arrival| arrival.delivered()).map(|got| got.topic).collect();
    assert_eq!(early, topics[..FEW]);
    let sent = world.counters().messages_out[0];
    assert!(sent < FILTERS as u64, "{sent} values");
    assert_eq!(topics_of(&many), topics);
}

/// Bytes that the shard holds.
fn held(world: &World) -> u64 {
    world.engine(0, |engine, _| engine.questions().held_bytes())
}

#[test]
fn repeated_subscribes_of_many_clients_wait_once() {
    const CLIENTS: usize = 64;
    const EACH: usize = 9;
    let world = World::with(1, |_| ());
    let topics = retain_values(&world);
    let clients: Vec<_> = (0..CLIENTS).map(|number| world.connect(v5(&format!("c{number}")))).collect();
    let round = || {
        for client in &clients {
            client.send_subscribe(&at_most_once(&topics[..EACH]), None);
        }
        world.turns();
        world.turns();
    };
    round();
    let first = held(&world);
    (0..20).for_each(|_| round());
    let wrong = world.engine(0, |engine, _| engine.questions().audit());
    assert!(wrong.is_empty(), "{wrong:?}");
    let (before, during) = (world.counters().messages_out[0], held(&world));
    world.run();
    let left = world.counters().messages_out[0] - before;
    assert!(left <= 2 * (CLIENTS * EACH) as u64, "{left} values waited");
    let after = held(&world);
    assert!(after < during && during < first + first / 2, "{first}, {during}, {after} bytes");
    for client in &clients {
        assert!(topics_of(client).len() >= EACH);
    }
}
