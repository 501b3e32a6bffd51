//! Policies for some clients and topics, what a shared group does with full members, and who publishes how fast.

use tidegate_engine::{DeadLetter, OverflowPolicy, OverflowRule, Reason, Settings, TenantId};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{ReasonCode, SubscriptionOptions};

use crate::harness::*;

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

fn drain(world: &World, client: &Client) -> Vec<String> {
    let mut payloads = Vec::new();
    loop {
        world.run();
        let Some(arrival) = client.take_arrival() else { return payloads };
        if let Some(got) = arrival.delivered() {
            payloads.push(got.text());
            if let Some(id) = got.id {
                client.puback(id);
            }
        }
    }
}

// ---- keep-last ---------------------------------------------------------------------------------------------------------

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
        assert_eq!(drain(world, &dash), ["start", "a20", "b20", "event"]);
        assert_eq!(drain(world, &log).len(), 42, "the rule is not for others");
        for topic in ["a", "b", "c", "d", "e"] {
            publisher.publish(message(&format!("value/{topic}"), topic).qos1());
        }
        assert_eq!(world.dropped(Reason::QueueFullOldest), 1, "more topics than there is room for");
        assert_eq!(drain(world, &dash), ["a", "c", "d", "e"]);
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
        assert_eq!(world.page_out("s"), 2);
        publisher.publish(message("t", "4").qos1());
        let back = world.connect(v5("s").lasting().receive_maximum(1).manual());
        back.expect_publish("t", "3");
        publisher.publish(message("t", "5").qos1());
        assert_eq!(world.dropped(Reason::QueueReplaced), 5);
    });
}

// ---- disconnect --------------------------------------------------------------------------------------------------------

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

// ---- shared groups -----------------------------------------------------------------------------------------------------

#[test]
fn a_full_member_of_a_group_is_passed_over_while_another_has_room() {
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
            let mut got: Vec<String> = members.iter().flat_map(|member| drain(world, member)).collect();
            got.sort_by_key(|text| text.parse::<u32>().unwrap());
            assert_eq!(got.len(), 16);
            for n in 0..16 {
                publisher.publish(message("t", n.to_string()).qos1());
            }
            world.run();
            assert_eq!(world.counters().dropped_total(), 1, "{strategy:?}: those who had been full are asked again");
        });
    }
}

// ---- dead letters ------------------------------------------------------------------------------------------------------

fn dead_letters(max_rate: u32) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.queue.max_messages = 1;
        let reasons = vec![Reason::QueueFullNewest, Reason::MessageExpired, Reason::RefusedByReceiver];
        settings.dead_letter = Some(DeadLetter { prefix: "$DEAD".into(), max_rate, reasons });
    }
}

/// What a client got below the topic of dead letters: reasons and payloads.
fn letters(reader: &Client) -> Vec<(String, String)> {
    let got = reader.messages();
    got.iter().map(|got| (got.topic.trim_start_matches("$DEAD/").to_owned(), got.text())).collect()
}

fn wants(reasons: &[Reason]) -> impl Fn(&mut Settings) {
    let letters = DeadLetter { prefix: "$DEAD".into(), max_rate: 100, reasons: reasons.to_vec() };
    move |settings| settings.dead_letter = Some(letters.clone())
}

#[test]
fn what_is_dropped_is_published_once_below_the_topic_of_dead_letters() {
    everywhere_with(dead_letters(100), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtLeastOnce);
        let _slow: Vec<Client> = (0..3).map(|n| stuck(world, &world.name_on(0, &format!("s{n}-")), "t/#")).collect();
        let publisher = world.connect(v5("p"));
        for n in 1..=3 {
            publisher.publish(message("t/x", n.to_string()).qos1().user("mine", "yes"));
        }
        let got = reader.messages();
        assert_eq!(got.len(), 1, "three subscribers of one shard lost the same message");
        assert_eq!((got[0].topic.as_str(), got[0].text().as_str()), ("$DEAD/queue_full_drop_newest", "3"));
        let property = |name: &str| {
            let found = got[0].user_properties.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(property("dead-letter-topic").as_deref(), Some("t/x"));
        assert_eq!(property("dead-letter-reason").as_deref(), Some("queue_full_drop_newest"));
        assert_eq!(property("mine").as_deref(), Some("yes"));
        assert_eq!(world.counters().dead_letters, 1);
    });
}

#[test]
fn what_is_larger_than_its_subscriber_takes_becomes_a_dead_letter_wherever_it_is_found_out() {
    everywhere_with(wants(&[Reason::SubscriberPacketLimit]), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        let subscriber = world.connect(v5("s").lasting().receive_maximum(1).manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for payload in ["a", "b"] {
            publisher.publish(message("t", payload.repeat(100)).qos1());
        }
        subscriber.lose();
        // One was in flight, one waits, and one comes while the client has the smaller limit.
        let _subscriber = world.connect(v5("s").lasting().max_packet(50).manual());
        publisher.publish(message("t", "c".repeat(100)).qos1());
        let got: Vec<(String, String)> =
            letters(&reader).into_iter().map(|(why, text)| (why, text[..1].into())).collect();
        let expected = ["a", "b", "c"].map(|text| ("subscriber_packet_limit".to_owned(), text.to_owned()));
        assert_eq!(got, expected);
        assert_eq!(world.dropped(Reason::SubscriberPacketLimit), 3);
    });
}

#[test]
fn qos_0_messages_for_who_is_away_become_dead_letters_where_that_is_asked_for() {
    everywhere_with(wants(&[Reason::OfflineQos0]), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        let subscriber = world.connect(v5("s").lasting());
        subscriber.subscribe("t", AtLeastOnce);
        subscriber.lose();
        world.connect(v5("p")).publish(message("t", "gone"));
        assert_eq!(letters(&reader), [("offline_qos0".to_owned(), "gone".to_owned())]);
        assert_eq!(world.dropped(Reason::OfflineQos0), 1);
    });
}

#[test]
fn a_dead_letter_that_is_dropped_is_only_counted() {
    everywhere_with(dead_letters(100), |world| {
        let _slow = stuck(world, "s", "t");
        let _full = stuck(world, "reader", "$DEAD/#");
        let publisher = world.connect(v5("p"));
        for n in 1..=8 {
            publisher.publish(message("t", n.to_string()).qos1());
        }
        assert_eq!(world.counters().dead_letters, 6);
        assert_eq!(world.dropped(Reason::QueueFullNewest), 6 + 4);
    });
}

#[test]
fn dead_letters_are_bounded_by_the_second() {
    everywhere_with(dead_letters(2), |world| {
        let _slow = stuck(world, "s", "t");
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        let publisher = world.connect(v5("p"));
        for n in 1..=7 {
            publisher.publish(message("t", n.to_string()).qos1());
        }
        assert_eq!(reader.payloads(), ["3", "4"]);
        assert_eq!((world.counters().dead_letters, world.counters().dead_letters_lost), (2, 3));
        world.advance(seconds(1));
        publisher.publish(message("t", "8").qos1());
        assert_eq!(reader.payloads(), ["8"]);
    });
}

#[test]
fn expired_messages_become_dead_letters() {
    everywhere_with(dead_letters(100), |world| {
        let reader = world.connect(v5("reader"));
        reader.subscribe("$DEAD/#", AtMostOnce);
        let slow = stuck(world, "s", "t");
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "1").qos1());
        publisher.publish(message("t", "2").qos1().expiry(5));
        world.advance(seconds(6));
        assert_eq!(drain(world, &slow), ["1"]);
        let got = reader.messages();
        assert_eq!((got[0].topic.as_str(), got[0].text().as_str()), ("$DEAD/message_expired", "2"));
    });
}

// ---- slow clients ------------------------------------------------------------------------------------------------------

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
            let all =
                (0..world.shards()).flat_map(|shard| world.engine(shard, |engine, now| engine.slow_sessions(now, 10)));
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
    let slow = world.engine(0, |engine, now| engine.slow_sessions(now, 3));
    let names: Vec<&str> = slow.iter().map(|slow| slow.client_id.as_str()).collect();
    assert_eq!(names, ["s0", "s1", "s2"]);
}

// ---- rates and sizes ---------------------------------------------------------------------------------------------------

#[test]
fn a_client_that_publishes_too_fast_waits_and_loses_nothing() {
    let settings = |settings: &mut Settings| {
        settings.listeners[0].max_message_rate = 10;
        settings.listeners[0].message_burst = 5;
        settings.limits.block_timeout_ms = seconds(3);
    };
    everywhere_with(settings, |world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtMostOnce);
        let (fast, other) = (world.connect(v5("fast")), world.connect(v5("other")));
        for n in 0..100 {
            fast.send_publish(message("t", n.to_string()).qos1());
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 6, "the burst, and the one that is too much");
        fast.ping();
        other.publish(message("t", "other"));
        assert_eq!(subscriber.payloads(), ["other"]);
        world.advance(seconds(1));
        let in_a_second = subscriber.payloads().len();
        assert!((9..=11).contains(&in_a_second), "{in_a_second}");
        world.advance(seconds(5));
        let in_five = subscriber.payloads().len();
        assert!((48..=52).contains(&in_five), "{in_five}: waiting longer than a queue may block is no way around");
        world.advance(seconds(10));
        assert_eq!(subscriber.payloads().len(), 100 - 6 - in_a_second - in_five);
        assert_eq!((world.counters().dropped_total(), fast.answers().len()), (0, 100));
        assert!(world.counters().rate_limited > 0);
    });
}

#[test]
fn bytes_are_limited_as_well_and_a_client_may_leave_meanwhile() {
    let settings = |settings: &mut Settings| settings.listeners[0].max_byte_rate = 1000;
    everywhere_with(settings, |world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtMostOnce);
        let fast = world.connect(v5("fast"));
        for _ in 0..20 {
            fast.send_publish(message("t", vec![b'x'; 489]));
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 3);
        world.advance(seconds(2));
        assert_eq!(subscriber.payloads().len(), 4);
        fast.lose();
        world.run();
        assert_eq!(subscriber.payloads().len(), 13, "what it had sent before counts");
        world.advance(minutes(1));
    });
}

#[test]
fn all_clients_of_a_listener_share_its_rate_and_take_turns() {
    for shards in [1, 3] {
        let world = World::with(shards, |settings| {
            settings.listeners.push(settings.listeners[0].clone());
            settings.listeners[0].max_total_message_rate = 10;
            settings.limits.block_timeout_ms = seconds(3);
        });
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("#", AtMostOnce);
        let pair = ["a", "b"].map(|stem| world.connect(v5(&world.name_on(shards - 1, stem))));
        for n in 0..100 {
            for (client, topic) in pair.iter().zip(["a", "b"]) {
                client.send_publish(message(topic, n.to_string()).qos1());
            }
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 12, "the burst, and one each that is too much");
        pair[0].ping();
        let free = world.connect(v5("free").through(1));
        for _ in 0..50 {
            free.send_publish(message("free", "x"));
        }
        world.run();
        assert_eq!(subscriber.payloads().len(), 50, "another listener has nothing to do with it");
        world.advance(seconds(10));
        let got = subscriber.messages();
        assert!((96..=104).contains(&got.len()), "{}", got.len());
        let of_a = got.iter().filter(|got| got.topic == "a").count();
        assert!((40..=60).contains(&of_a), "{of_a} of {}", got.len());
        world.advance(seconds(10));
        assert_eq!(subscriber.payloads().len(), 200 - 12 - got.len());
        assert_eq!(world.counters().dropped_total(), 0);
        assert!(pair.iter().all(|client| client.answers().len() == 100));
        let waits_for_all = world.take_log().into_iter().any(|event| {
            matches!(event, tidegate_engine::LogEvent::Delayed { delay: tidegate_engine::Delay::ListenerRate, .. })
        });
        assert!(waits_for_all);
    }
}

#[test]
fn bytes_of_all_clients_are_limited_as_well() {
    let world = World::with(1, |settings| settings.listeners[0].max_total_byte_rate = 1000);
    let subscriber = world.connect(v5("s"));
    subscriber.subscribe("t", AtMostOnce);
    let pair = ["a", "b"].map(|name| world.connect(v5(name)));
    for _ in 0..4 {
        for client in &pair {
            client.send_publish(message("t", vec![b'x'; 489]));
        }
    }
    world.run();
    assert_eq!(subscriber.payloads().len(), 4, "two, and one each that is too much");
    world.advance(seconds(3));
    assert_eq!(subscriber.payloads().len(), 4);
}

#[test]
fn long_topics_and_wide_filters_are_refused() {
    let settings = |settings: &mut Settings| {
        settings.limits.max_topic_bytes = 20;
        settings.limits.max_filter_wildcards = 2;
    };
    everywhere_with(settings, |world| {
        let client = world.connect(v5("s"));
        let with = SubscriptionOptions::new(ExactlyOnce);
        let filters = ["+/+/#", "+/+/+", "12345678901234567890", "123456789012345678901", "$share/g/+/a/+/+"];
        let all: Vec<_> = filters.iter().map(|filter| (*filter, with)).collect();
        let id = client.send_subscribe(&all, None);
        let (granted, wide, long) =
            (ReasonCode::GrantedQos2, ReasonCode::QuotaExceeded, ReasonCode::TopicFilterInvalid);
        assert_eq!(client.expect_sub_ack(id), [granted, wide, granted, long, wide]);
        assert_eq!(world.counters().requests_refused[Reason::TooManyWildcards.number()], 2);
        client.publish(message("12345678901234567890", "x"));
        assert_eq!(client.payloads(), ["x"]);
        client.send_publish(message("123456789012345678901", "x"));
        client.expect_disconnect(ReasonCode::TopicNameInvalid);
        assert_eq!(client.closed(), Some(Reason::TopicTooLong));
    });
}

// ---- overload ----------------------------------------------------------------------------------------------------------

/// A ceiling that is reached soon, and input that is not read far ahead. Where there is a store, what waits in it takes no
/// memory.
fn low_ceiling(settings: &mut Settings) {
    settings.limits.memory_ceiling = 3_000_000;
    settings.limits.parked_bytes = 50_000;
    settings.limits.block_timeout_ms = seconds(30);
    settings.queue.max_messages = 100_000;
}

/// Sends so many messages of five thousand bytes, some at a time as a network brings them.
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
fn near_the_memory_ceiling_those_who_fill_it_wait_before_anything_is_dropped() {
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
        let got = drain(world, &slow);
        assert_eq!((got.len(), world.counters().dropped_total()), (600, 0));
        assert!(got.is_sorted());
        assert_eq!(flood.answers().len(), 600);
    });
}

#[test]
fn a_publisher_waits_for_memory_only_so_long_and_then_the_policies_decide() {
    everywhere_in_memory(low_ceiling, |world| {
        let slow = stuck(world, "slow", "t");
        let flood = flood(world, "flood", 600);
        assert_eq!(world.counters().dropped_total(), 0);
        world.advance(seconds(31));
        assert!(world.dropped(Reason::MemoryCeiling) > 0);
        assert_eq!(flood.answers().len(), 600);
        let before = world.counters().dropped_total();
        assert_eq!(drain(world, &slow).len() as u64, 600 - before);
    });
}

#[test]
fn nobody_waits_for_the_queue_of_a_client_that_is_away() {
    everywhere_in_memory(low_ceiling, |world| {
        stuck(world, "away", "t").lose();
        let flood = flood(world, "flood", 600);
        assert_eq!(flood.answers().len(), 600);
        assert!(world.dropped(Reason::MemoryCeiling) > 0);
    });
}
