//! Faults that a review of the engine's sources found, each with its failure.

use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_engine::{
    Engine, ListenerId, Millis, Now, OverflowPolicy, Reason, RetainedSettings, Settings, ShardPosition, SharedStrategy,
};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{
    Packet, PacketId, PacketType, PingReq, ReasonCode, SubscriptionOptions, TopicFilter, TopicFilters, Unsubscribe,
    UserProperties, Version,
};

use crate::harness::*;

fn block(max_messages: u32) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.queue.overflow = OverflowPolicy::Block;
        settings.queue.max_messages = max_messages;
        settings.limits.block_timeout_ms = seconds(30);
    }
}

/// A client that takes one message and acknowledges only when the test does.
fn stuck(world: &World, name: &str) -> Client {
    let client = world.connect(v5(name).lasting().receive_maximum(1).manual());
    client.subscribe("t", AtLeastOnce);
    client
}

#[test]
fn a_huge_subscribe_waits_for_all_confirmations() {
    // Each of 63 shards confirms each filter: more than 16 bits count.
    let world = World::new(64);
    let client = world.connect(v5(&world.name_on(0, "s")));
    let filters: Vec<String> = (0..1041).map(|number| number.to_string()).collect();
    let filters: Vec<_> = filters.iter().map(|filter| (&filter[..], SubscriptionOptions::new(AtLeastOnce))).collect();
    world.hold(7, 0);
    let id = client.send_subscribe(&filters, None);
    world.run();
    client.expect_nothing();
    world.release(7, 0);
    assert_eq!(client.expect_sub_ack(id).len(), 1041);
}

#[test]
fn a_repeating_subscribe_is_bounded_by_the_clients_limit() {
    let world = World::with(3, |settings| settings.limits.max_subscriptions_per_client = 10);
    let client = world.connect(v5(&world.name_on(0, "s")));
    for other in 1..3 {
        world.hold(other, 0);
    }
    for filter in ["a", "$share/g/a"] {
        client.send_subscribe(&vec![(filter, SubscriptionOptions::new(AtLeastOnce)); 10_000], None);
    }
    world.run();
    assert!(world.gauges().link_bytes < 5000, "{:?}", world.gauges());
    for other in 1..3 {
        world.release(other, 0);
    }
    for _ in 0..2 {
        let ack = client.expect(PacketType::SubAck);
        let Packet::SubAck(ack) = ack.packet() else { continue };
        let codes: Vec<ReasonCode> = ack.reason_codes.iter().collect();
        assert!(codes[..10].iter().all(|code| *code == ReasonCode::GrantedQos1));
        assert!(codes[10..].iter().all(|code| *code == ReasonCode::QuotaExceeded) && codes.len() == 10_000);
    }
}

#[test]
fn an_early_unsubscribe_stops_retained_messages() {
    let world = World::new(3);
    let topic = world.name_on(2, "t");
    world.connect(v5("p")).publish(message(&topic, "kept").retain().qos1());
    let client = world.connect(v5(&world.name_on(0, "s")));
    client.send_subscribe(&[(&topic, SubscriptionOptions::new(AtLeastOnce))], None);
    client.send_unsubscribe(&topic);
    client.expect(PacketType::SubAck);
    client.expect(PacketType::UnsubAck);
    client.expect_nothing();
}

#[test]
fn a_turn_scans_a_bounded_number_of_retained_messages() {
    let settings =
        Settings { retained: RetainedSettings { step: 10, ..RetainedSettings::default() }, ..Settings::default() };
    let now = Now { monotonic: Millis(1000), unix: 0 };
    let mut engine = Engine::new(Arc::new(settings), ShardPosition::ALONE, 1, now);
    let key = engine.open_connection(now, ListenerId(0)).unwrap();
    let mut bytes = v5("s").encode();
    for number in 0..1000 {
        bytes.extend(message(&format!("t/{number}"), "x").retain().encode(Version::V5));
    }
    // The same wildcard again and again: each time it starts from the beginning.
    for _ in 0..100 {
        bytes.extend_from_slice(&[0x82, 9, 0, 1, 0, 0, 3, b't', b'/', b'#', 0]);
    }
    engine.handle_input(now, key, &bytes);
    let sent = engine.questions().counters().messages_out[0];
    assert!(sent <= 100, "{sent} messages before anyone else had a turn");
    for _ in 0..1000 {
        engine.handle_timers(now);
        if let Some(output) = engine.output(key) {
            output.advance(output.len());
        }
        engine.outputs().handle_written(now, key);
    }
    assert!(engine.questions().counters().messages_out[0] >= 1000);
    assert_eq!(engine.next_deadline(), Millis::NEVER);
}

#[test]
fn a_parked_publisher_that_says_goodbye_leaves_no_will() {
    everywhere_with(block(2), |world| {
        let subscriber = stuck(world, "s");
        let watcher = world.connect(v5("w"));
        watcher.subscribe("will", AtMostOnce);
        let publisher = world.connect(v5("p").will(message("will", "gone")));
        for number in 1..=8 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        assert_eq!(world.counters().publishers_parked, 1);
        publisher.send_bytes(&[0xe0, 0]);
        world.run();
        publisher.lose();
        watcher.expect_nothing();
        // Its messages from before it went are delivered, as far as there is room.
        assert_eq!(subscriber.drain(), ["1", "2", "3", "4", "5", "6", "7", "8"]);
        assert_eq!(world.gauges().input_bytes, 0);
    });
}

#[test]
fn a_subscribers_bad_packet_releases_blocked_publishers() {
    let world = World::with(1, block(2));
    let subscriber = stuck(&world, "s");
    let publisher = world.connect(v5("p"));
    for number in 1..=6 {
        publisher.send_publish(message("t", number.to_string()).qos1());
    }
    world.run();
    assert_eq!(publisher.answers().len(), 4);
    subscriber.send_bytes(&[0xff, 0]);
    world.run();
    assert_eq!(publisher.answers().len(), 2, "the publisher still waits");
}

#[test]
fn a_gone_publisher_makes_no_queue_drop_others_messages() {
    let world = World::with(2, block(2));
    let subscriber = stuck(&world, &world.name_on(1, "s"));
    let hasty = world.connect(v5(&world.name_on(0, "hasty")));
    let patient = world.connect(v5(&world.name_on(0, "patient")));
    for number in 1..=4 {
        hasty.send_publish(message("t", number.to_string()).qos1());
    }
    // It is gone before the other shard asks it to wait.
    world.hold(1, 0);
    world.run();
    hasty.lose();
    world.release(1, 0);
    for number in 5..=8 {
        patient.send_publish(message("t", number.to_string()).qos1());
        world.run();
    }
    assert_eq!(world.counters().dropped_total(), 0);
    assert_eq!(subscriber.drain(), ["1", "2", "3", "4", "5", "6", "7", "8"]);
}

#[test]
fn leaving_a_group_releases_blocked_publishers() {
    let world = World::with(1, block(2));
    let member = world.connect(v5("m").lasting().receive_maximum(1).manual());
    member.subscribe("$share/g/t", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    for number in 1..=6 {
        publisher.send_publish(message("t", number.to_string()).qos1());
    }
    world.run();
    assert_eq!(publisher.answers().len(), 4);
    // It reads nothing, so that no output that leaves tells the engine to look at the queue.
    member.stop_reading();
    member.send_unsubscribe("$share/g/t");
    world.run();
    assert_eq!(publisher.answers().len(), 2, "the publisher still waits");
}

#[test]
fn a_flood_of_subscriptions_waits_for_the_links() {
    let world = World::with(2, |settings| settings.limits.shard_link_bytes = 10_000);
    let client = world.connect(v5(&world.name_on(0, "s")));
    world.hold(0, 1);
    let mut filter = String::new();
    for number in 0..2000 {
        filter.clear();
        let _ = write!(filter, "some/filter/of/ordinary/length/{number}");
        client.send_subscribe(&[(&filter, SubscriptionOptions::new(AtMostOnce))], None);
    }
    world.run();
    assert!(world.gauges().link_bytes < 20_000, "{:?}", world.gauges());
    client.send_bytes(&PingReq::BYTES);
    world.run();
    world.release(0, 1);
    let mut answers = 0;
    while let Some(arrival) = client.take_arrival() {
        answers += u32::from(arrival.packet_type() == PacketType::SubAck);
    }
    assert_eq!(answers, 2000);
    assert_eq!(world.counters().dropped_total(), 0);
}

/// Plays a story in worlds of three shards that differ in what happens next, with publisher, subscribers and the topic
/// at home on different ones.
fn three_homes(story: impl Fn(&World, &mut Random, &str, [String; 3])) {
    for seed in 0..400 {
        let world = World::seeded(3, seed, &format!("seed {seed}"), |_| {});
        let mut random = Random::salted(seed, 2);
        let [publisher, subscriber, home] =
            random.pick(&[[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
        let topic = world.name_on(home, "t");
        let names = [(publisher, "p"), (subscriber, "a"), (subscriber, "b")].map(|(at, stem)| world.name_on(at, stem));
        story(&world, &mut random, &topic, names);
    }
}

fn texts(client: &Client) -> Vec<String> {
    client.messages_among_others().iter().map(Delivered::text).collect()
}

#[test]
fn a_replaced_value_does_not_follow_its_successor() {
    three_homes(|world, random, topic, [publisher, subscriber, _]| {
        let publisher = world.connect(v5(&publisher));
        let subscriber = world.connect(v5(&subscriber));
        publisher.publish(message(topic, "old").retain().qos1());
        subscriber.send_subscribe(&[(topic, SubscriptionOptions::new(AtLeastOnce))], None);
        // The publisher's shard takes note of the interest and of the new value in one turn.
        world.run_some(random.below(12));
        publisher.send_publish(message(topic, "new").retain().qos1());
        let got = texts(&subscriber);
        assert_eq!(got.last().map(String::as_str), Some("new"), "{got:?}");
    });
}

#[test]
fn a_shards_second_subscriber_misses_no_retained_value() {
    three_homes(|world, random, topic, [publisher, first, second]| {
        let publisher = world.connect(v5(&publisher));
        let [first, second] = [first, second].map(|name| world.connect(v5(&name)));
        publisher.publish(message(topic, "old").retain().qos1());
        first.subscribe(topic, AtLeastOnce);
        first.messages();
        // The new value may have come to the subscribers' shard while it is still on its way to the topic's home.
        publisher.send_publish(message(topic, "new").retain().qos1());
        world.run_some(random.below(12));
        second.send_subscribe(&[(topic, SubscriptionOptions::new(AtLeastOnce))], None);
        let got = texts(&second);
        assert_eq!(got.last().map(String::as_str), Some("new"), "{got:?}");
    });
}

#[test]
fn resent_messages_wait_for_room_in_the_output() {
    everywhere_with(
        |settings| settings.limits.output_high_water = 10_000,
        |world| {
            let subscriber = world.connect(v5("s").lasting().receive_maximum(1000).manual());
            subscriber.subscribe("t", AtLeastOnce);
            let publisher = world.connect(v5("p"));
            for number in 0..200 {
                publisher.publish(message("t", format!("{number:0>1000}")).qos1());
            }
            assert_eq!(subscriber.messages().len(), 200);
            subscriber.lose();
            let subscriber = world.open(&v5("s").lasting().receive_maximum(1000).manual());
            subscriber.set_window(0);
            subscriber.send_bytes(&v5("s").lasting().receive_maximum(1000).encode());
            world.run();
            assert!(subscriber.output_len() < 20_000, "{}", subscriber.output_len());
            publisher.publish(message("t", "200").qos1());
            subscriber.read();
            subscriber.expect(PacketType::ConnAck);
            let numbers: Vec<u32> = subscriber.messages().iter().map(|got| got.text().parse().unwrap()).collect();
            assert_eq!(numbers, (0..=200).collect::<Vec<u32>>());
        },
    );
}

#[test]
fn no_answer_is_larger_than_the_client_takes() {
    let world = World::new(1);
    let filters = vec![("a", SubscriptionOptions::new(AtLeastOnce)); 40];
    let client = world.connect(v5("s").max_packet(30));
    client.send_subscribe(&filters, None);
    // Too long for a reason string as well: no packet can name a packet that the client cannot take.
    let disconnect = client.expect(PacketType::Disconnect);
    let Packet::Disconnect(disconnect) = disconnect.packet() else { return };
    assert_eq!((disconnect.reason_code, disconnect.reason_string), (ReasonCode::PacketTooLarge, None));
    assert_eq!(client.expect_closed(), Reason::PacketTooLarge);
    let client = world.connect(v5("s").max_packet(30));
    let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let names: Vec<TopicFilter<'_>> = names.iter().map(|name| TopicFilter::new(name).unwrap()).collect();
    client.send(&Packet::Unsubscribe(Unsubscribe {
        packet_id: PacketId::MIN,
        user_properties: UserProperties::EMPTY,
        topic_filters: TopicFilters::new(&names),
    }));
    client.expect(PacketType::Disconnect);
}

#[test]
fn a_returned_message_follows_its_publishers_hash() {
    everywhere_with(
        |settings| settings.shared.strategy = SharedStrategy::HashClient,
        |world| {
            let names: Vec<String> = (0..6).map(|number| world.name_on(number, &format!("m{number}-"))).collect();
            let mut members: Vec<Client> =
                names.iter().map(|name| world.connect(v5(name).receive_maximum(1).manual())).collect();
            for member in &members {
                member.subscribe("$share/g/t", AtLeastOnce);
            }
            // Another subscriber makes the message be kept before it is dealt.
            world.connect(v5("away").lasting()).subscribe("t", AtLeastOnce);
            world.connect(v5("away").lasting()).lose();
            let publishers: Vec<Client> = (0..40).map(|number| world.connect(v5(&format!("p{number}")))).collect();
            for (number, publisher) in publishers.iter().enumerate() {
                for _ in 0..3 {
                    publisher.publish(message("t", number.to_string()).qos1());
                }
            }
            // Half of them leave and return their messages; one more message shows whose turn it is now.
            for leaver in members.drain(..3) {
                leaver.lose();
            }
            for (number, publisher) in publishers.iter().enumerate() {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            let dealt: Vec<Vec<String>> = members.iter().map(Client::drain).collect();
            assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), 40 * 4);
            for number in 0..publishers.len() {
                let takers = dealt.iter().filter(|texts| texts.contains(&number.to_string())).count();
                assert_eq!(takers, 1, "{number} in {dealt:?}");
            }
        },
    );
}

#[test]
fn in_flight_messages_stay_within_the_servers_limit() {
    everywhere_with(
        |settings| settings.limits.max_inflight = 3,
        |world| {
            let subscriber = world.connect(v5("s").lasting().receive_maximum(65_535).manual());
            subscriber.subscribe("t", AtLeastOnce);
            let publisher = world.connect(v5("p"));
            for number in 0..10 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            assert_eq!(subscriber.messages().len(), 3);
            assert_eq!(world.gauges().inflight_messages, 3);
        },
    );
}

#[test]
fn bytes_that_leave_are_counted() {
    everywhere(|world| {
        let client = world.connect(v5("s"));
        client.subscribe("t", AtMostOnce);
        let before = world.counters().bytes_out;
        client.ping();
        assert_eq!(world.counters().bytes_out, before + 2);
        world.connect(v5("p")).publish(message("t", vec![b'x'; 20_000]));
        client.expect_message();
        // Fixed header, topic and properties, and the CONNACK of the publisher.
        let more = world.counters().bytes_out - before - 2 - 20_000;
        assert!((8..100).contains(&more), "{more}");
    });
}

#[test]
fn messages_in_flight_are_bounded_in_bytes_as_well() {
    everywhere_with(
        |settings| settings.queue.max_bytes = 100_000,
        |world| {
            let subscriber = world.connect(v5("s").lasting().manual());
            subscriber.subscribe("t", ExactlyOnce);
            let publisher = world.connect(v5("p"));
            for number in 0..60 {
                publisher.publish(message("t", format!("{number:0>10000}")).qos2());
            }
            let sent = subscriber.messages();
            assert!((9..=11).contains(&sent.len()), "{}", sent.len());
            // A message that the receiver has is kept no longer, and makes room for waiting ones.
            for got in sent {
                subscriber.pubrec(got.id.unwrap());
            }
            let more = subscriber.messages_among_others();
            assert!((8..=11).contains(&more.len()), "{}", more.len());
        },
    );
}

#[test]
fn the_topics_behind_aliases_are_counted_as_memory() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 200_000);
    let topic = |number: u16| format!("{}/{number}", "x".repeat(60_000));
    let greedy: Vec<Client> = (0..3).map(|number| world.connect(v5(&format!("greedy{number}")))).collect();
    for client in &greedy {
        for number in 1..=3 {
            client.send_publish(message(&topic(number), "").alias(number));
            world.run();
        }
    }
    let refused: Vec<_> = greedy.iter().filter_map(Client::closed).collect();
    assert_eq!(refused, [Reason::MemoryCeiling, Reason::MemoryCeiling]);
    // The counts go back with the connections.
    greedy[0].disconnect();
    let other = world.connect(v5("other"));
    other.send_publish(message(&topic(1), "").alias(1));
    other.ping();
}
