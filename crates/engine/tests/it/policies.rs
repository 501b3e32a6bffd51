//! Policies for some clients and topics, full members of shared groups, and slow clients.

use tidegate_engine::{OverflowPolicy, OverflowRule, Reason, Settings, TenantId};
use tidegate_mqtt::QoS::AtLeastOnce;

use crate::harness::*;

mod dead_letters;
mod overload;
mod rates;

fn rule(clients: &str, filter: Option<&str>, policy: OverflowPolicy, max_messages: u32) -> OverflowRule {
    OverflowRule {
        clients: clients.into(),
        filter: filter.map(Into::into),
        policy,
        max_messages: Some(max_messages),
        max_bytes: None,
    }
}

/// A client that has one message in flight and takes no other before it acknowledges.
fn stuck(world: &World, name: &str, filter: &str) -> Client {
    let client = world.connect(v5(name).lasting().receive_maximum(1).manual());
    client.subscribe(filter, AtLeastOnce);
    client
}

// ---- keep-last ------------------------------------------------------------------------------------------------------

#[test]
fn of_each_topic_the_newest_message_is_kept() {
    let rules = |settings: &mut Settings| {
        settings.overflow_rules = vec![rule("dash-*", Some("value/#"), OverflowPolicy::KeepLast, 3)];
    };
    everywhere_with(rules, |world| {
        let (dash, log) = (stuck(world, "dash-1", "#"), stuck(world, "log", "#"));
        let publisher = world.connect(v5("p"));
        publisher.publish(message("start", "start").qos1());
        for round in 1..=20 {
            for topic in ["a", "b"] {
                publisher.publish(message(&format!("value/{topic}"), format!("{topic}{round}")).qos1());
            }
        }
        publisher.publish(message("event", "event").qos1());
        assert_eq!(world.dropped(Reason::QueueReplaced), 38);
        assert_eq!(dash.drain(), ["start", "a20", "b20", "event"]);
        assert_eq!(log.drain().len(), 42, "the rule is not for others");
        for topic in ["a", "b", "c", "d", "e"] {
            publisher.publish(message(&format!("value/{topic}"), topic).qos1());
        }
        assert_eq!(world.dropped(Reason::QueueFullOldest), 1, "more topics than there is room for");
        assert_eq!(dash.drain(), ["a", "c", "d", "e"]);
    });
}

#[test]
fn a_newer_message_that_needs_no_window_goes_at_once() {
    let rules = |settings: &mut Settings| settings.queue.overflow = OverflowPolicy::KeepLast;
    everywhere_with(rules, |world| {
        let client = world.connect(v5("a").receive_maximum(1).manual());
        client.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "in flight").qos1());
        publisher.publish(message("t", "replaced").qos1());
        publisher.publish(message("t", "newest"));
        assert_eq!(client.payloads(), ["in flight", "newest"]);
    });
}

#[test]
fn keep_last_outlives_being_away() {
    let rules = |settings: &mut Settings| settings.queue.overflow = OverflowPolicy::KeepLast;
    everywhere_with(rules, |world| {
        stuck(world, "s", "#").lose();
        let publisher = world.connect(v5("p"));
        for n in 1..=3 {
            publisher.publish(message("t", n.to_string()).qos1());
            publisher.publish(message("u", n.to_string()).qos1());
        }
        assert_eq!(world.gauges().queued_messages, 2);
        publisher.publish(message("t", "4").qos1());
        let back = world.connect(v5("s").lasting().receive_maximum(1).manual());
        back.expect_publish("t", "4");
        publisher.publish(message("t", "5").qos1());
        assert_eq!(world.dropped(Reason::QueueReplaced), 5);
    });
}

// ---- disconnect -----------------------------------------------------------------------------------------------------

#[test]
fn a_client_is_not_disconnected_for_ever_by_its_own_message() {
    let settings = |settings: &mut Settings| {
        settings.queue.overflow = OverflowPolicy::Disconnect;
        settings.queue.max_messages = 1;
    };
    everywhere_with(settings, |world| {
        let client = stuck(world, "s", "t");
        for n in 1..=5 {
            client.send_publish(message("t", n.to_string()).qos1().id(n));
        }
        world.run();
        client.expect_open();
        assert_eq!(world.dropped(Reason::QueueFullNewest), 3);
        let other = world.connect(v5("p"));
        other.publish(message("t", "6").qos1());
        assert_eq!(client.closed(), Some(Reason::QueueFullDisconnect), "others' messages still do");
    });
}

// ---- shared groups --------------------------------------------------------------------------------------------------

#[test]
fn a_full_member_is_passed_over_while_another_has_room() {
    use tidegate_engine::SharedStrategy::{HashClient, HashTopic, RoundRobin, Sticky};
    for strategy in [RoundRobin, Sticky, HashTopic, HashClient] {
        let settings = |settings: &mut Settings| {
            settings.shared.strategy = strategy;
            settings.queue.max_messages = 3;
        };
        everywhere_with(settings, |world| {
            let members: Vec<Client> = (0..4).map(|n| stuck(world, &format!("m{n}"), "$share/g/t")).collect();
            let publisher = world.connect(v5("p"));
            for n in 0..16 {
                publisher.publish(message("t", n.to_string()).qos1());
            }
            world.run();
            assert_eq!(world.counters().dropped_total(), 0, "{strategy:?}: each has room for four");
            publisher.publish(message("t", "16").qos1());
            world.run();
            assert_eq!(world.dropped(Reason::QueueFullNewest), 1, "{strategy:?}: now all are full");
            let mut got: Vec<String> = members.iter().flat_map(Client::drain).collect();
            got.sort_by_key(|text| text.parse::<u32>().unwrap());
            assert_eq!(got.len(), 16);
            for n in 0..16 {
                publisher.publish(message("t", n.to_string()).qos1());
            }
            world.run();
            assert_eq!(world.counters().dropped_total(), 1, "{strategy:?}: members that had been full are asked again");
        });
    }
}

// ---- slow clients ---------------------------------------------------------------------------------------------------

#[test]
fn slow_clients_are_named_before_anything_is_dropped() {
    everywhere(|world| {
        let subscriber = stuck(world, "sleepy", "t");
        let quick = world.connect(v5("quick"));
        quick.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "1").qos1());
        publisher.publish(message("t", "2").qos1());
        let id = subscriber.expect_publish("t", "1").id.unwrap();
        let slow = |world: &World| {
            let all = (0..world.shards())
                .flat_map(|shard| world.engine(shard, |engine, now| engine.questions().slow_sessions(now, 10)));
            all.collect::<Vec<_>>()
        };
        world.advance(seconds(29));
        assert_eq!(slow(world), []);
        world.advance(seconds(31));
        let named = slow(world);
        assert_eq!(named.len(), 1, "{named:?}");
        assert_eq!((named[0].client_id.as_str(), named[0].tenant), ("sleepy", TenantId::DEFAULT));
        assert_eq!((named[0].unacknowledged, named[0].inflight_messages), (Some(id.get()), 1));
        assert_eq!((named[0].waiting_ms, named[0].queued_messages), (seconds(60), 1));
        subscriber.puback(id);
        world.run();
        assert_eq!(slow(world), []);
    });
}

#[test]
fn the_slowest_come_first_and_the_list_is_bounded() {
    let world = World::new(1);
    let publisher = world.connect(v5("p"));
    let mut clients = Vec::new();
    for n in 0..5 {
        let client = stuck(&world, &format!("s{n}"), &format!("t/{n}"));
        publisher.publish(message(&format!("t/{n}"), "x").qos1());
        world.advance(seconds(10));
        clients.push(client);
    }
    world.advance(seconds(60));
    let slow = world.engine(0, |engine, now| engine.questions().slow_sessions(now, 3));
    let names: Vec<&str> = slow.iter().map(|slow| slow.client_id.as_str()).collect();
    assert_eq!(names, ["s0", "s1", "s2"]);
}
