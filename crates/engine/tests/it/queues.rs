//! Queues are bounded, and what happens at the bound is a choice.

use tidegate_engine::{LogEvent, OverflowPolicy, Reason, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, PingReq, ReasonCode, SubscriptionOptions};

use crate::harness::*;

fn policy(overflow: OverflowPolicy, max_messages: u32) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.queue.overflow = overflow;
        settings.queue.max_messages = max_messages;
        settings.limits.block_timeout_ms = seconds(30);
    }
}

/// A client that has one message in flight and takes no other before it acknowledges.
fn stuck(world: &World, name: &str) -> Client {
    let client = world.connect(v5(name).lasting().receive_maximum(1).manual());
    client.subscribe("t", AtLeastOnce);
    client
}

fn numbers(range: std::ops::RangeInclusive<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// Acknowledges everything until nothing more comes; returns the payloads.
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

#[test]
fn drop_newest_keeps_what_came_first() {
    everywhere_with(policy(OverflowPolicy::DropNewest, 3), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=8) {
            publisher.publish(message("t", number).qos1());
        }
        assert_eq!(world.dropped(Reason::QueueFullNewest), 4);
        assert_eq!(drain(world, &subscriber), numbers(1..=4));
    });
}

#[test]
fn drop_oldest_keeps_what_came_last() {
    everywhere_with(policy(OverflowPolicy::DropOldest, 3), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=8) {
            publisher.publish(message("t", number).qos1());
        }
        assert_eq!(world.dropped(Reason::QueueFullOldest), 4);
        assert_eq!(drain(world, &subscriber), ["1", "6", "7", "8"]);
    });
}

#[test]
fn disconnect_ends_the_slow_readers_connection_and_keeps_its_queue() {
    everywhere_with(policy(OverflowPolicy::Disconnect, 3), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=5) {
            publisher.publish(message("t", number).qos1());
        }
        subscriber.expect_publish("t", "1");
        subscriber.expect_disconnect(ReasonCode::QuotaExceeded);
        assert_eq!(world.dropped(Reason::QueueFullDisconnect), 1);
        assert_eq!(world.counters().disconnects[Reason::QueueFullDisconnect.number()], 1);
        let subscriber = world.connect(v5("s").lasting().manual());
        assert_eq!(drain(world, &subscriber), numbers(1..=4));
    });
}

#[test]
fn the_queue_of_a_client_that_is_away_is_bounded_under_every_policy() {
    for overflow in
        [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest, OverflowPolicy::Disconnect, OverflowPolicy::Block]
    {
        everywhere_with(policy(overflow, 3), |world| {
            stuck(world, "s").lose();
            let publisher = world.connect(v5("p"));
            for number in numbers(1..=8) {
                publisher.publish(message("t", number).qos1());
            }
            assert_eq!(world.counters().dropped_total(), 5, "{overflow:?}");
            assert_eq!(world.gauges().queued_messages, 3);
            let subscriber = world.connect(v5("s").lasting().manual());
            let wanted = if overflow == OverflowPolicy::DropOldest { numbers(6..=8) } else { numbers(1..=3) };
            assert_eq!(drain(world, &subscriber), wanted, "{overflow:?}");
        });
    }
}

#[test]
fn bytes_fill_a_queue_as_well() {
    everywhere_with(
        |settings| settings.queue.max_bytes = 10_000,
        |world| {
            let subscriber = stuck(world, "s");
            let publisher = world.connect(v5("p"));
            for _ in 0..10 {
                publisher.publish(message("t", vec![b'x'; 3000]).qos1());
            }
            let gauges = world.gauges();
            assert!((1..=3).contains(&gauges.queued_messages), "{gauges:?}");
            assert!(gauges.queued_bytes <= 10_000, "{gauges:?}");
            assert_eq!(world.dropped(Reason::QueueFullNewest), 9 - gauges.queued_messages);
            assert_eq!(drain(world, &subscriber).len() as u64, 1 + gauges.queued_messages);
            assert_eq!(world.gauges().queued_bytes, 0);
        },
    );
}

#[test]
fn a_queue_of_a_slow_socket_is_bounded_too() {
    everywhere_with(
        |settings| {
            settings.queue.max_messages = 5;
            settings.limits.output_high_water = 1000;
        },
        |world| {
            let subscriber = world.connect(v5("s"));
            subscriber.subscribe("t", AtMostOnce);
            subscriber.stop_reading();
            let publisher = world.connect(v5("p"));
            for number in 0..100 {
                publisher.publish(message("t", format!("{number:0>100}")));
            }
            world.run();
            assert!(subscriber.output_len() < 1400, "{}", subscriber.output_len());
            assert_eq!(world.gauges().queued_messages, 5);
            subscriber.read();
            let got = subscriber.payloads();
            assert_eq!(got.len() as u64 + world.counters().dropped_total(), 100);
            assert!(got.is_sorted());
            publisher.publish(message("t", "after"));
            assert_eq!(subscriber.payloads(), ["after"]);
        },
    );
}

// ---- control packets ---------------------------------------------------------------------------------------------------

#[test]
fn control_packets_are_never_dropped_when_the_queue_is_full() {
    for overflow in [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest, OverflowPolicy::Block] {
        everywhere_with(
            |settings| {
                policy(overflow, 2)(settings);
                settings.limits.output_high_water = 500;
            },
            |world| {
                let subscriber = world.connect(v5("s").lasting().receive_maximum(2));
                subscriber.subscribe("t", AtLeastOnce);
                subscriber.stop_reading();
                let publisher = world.connect(v5("p"));
                for number in 0..30 {
                    publisher.send_publish(message("t", format!("{number:0>100}")).qos1());
                }
                world.run();
                let own = world.connect(v5("other"));
                own.publish(message("elsewhere", "x"));
                subscriber.send_bytes(&PingReq::BYTES);
                let sub = subscriber.send_subscribe(&[("u", SubscriptionOptions::new(AtMostOnce))], None);
                subscriber.send_publish(message("v", "x").qos1().id(500));
                subscriber.send_publish(message("v", "x").qos2().id(501));
                subscriber.read();
                let mut kinds = Vec::new();
                while let Some(arrival) = subscriber.take_arrival() {
                    if arrival.packet_type() != PacketType::Publish {
                        kinds.push(arrival.packet_type());
                    }
                }
                assert_eq!(kinds, [PacketType::PingResp, PacketType::SubAck], "{sub:?}");
                let answered: Vec<_> = subscriber.answers().into_iter().map(|(kind, id, _)| (kind, id)).collect();
                assert!(answered.contains(&(PacketType::PubAck, 500)), "{answered:?}");
                assert!(answered.contains(&(PacketType::PubComp, 501)), "{answered:?}");
            },
        );
    }
}

#[test]
fn a_client_that_only_asks_and_never_reads_does_not_fill_the_memory() {
    everywhere_with(
        |settings| settings.limits.output_high_water = 10_000,
        |world| {
            let client = world.connect(v5("a"));
            client.stop_reading();
            for _ in 0..200 {
                client.send_bytes(&PingReq::BYTES.repeat(500));
                world.run();
            }
            assert!(client.output_len() < 50_000, "{}", client.output_len());
            assert!(client.unread_len() > 100_000, "the rest stays with the sender");
            client.read();
            let mut answers = 0;
            while client.take_arrival().is_some() {
                answers += 1;
            }
            assert_eq!(answers, 100_000);
            client.ping();
        },
    );
}

// ---- saying who --------------------------------------------------------------------------------------------------------

#[test]
fn the_log_says_who_stopped_acknowledging_which_message_and_since_when() {
    for overflow in [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest] {
        everywhere_with(policy(overflow, 1), |world| {
            let subscriber = stuck(world, "sleepy");
            let publisher = world.connect(v5("p"));
            publisher.publish(message("t", "1").qos1());
            let stuck_id = subscriber.expect_publish("t", "1").id.unwrap();
            world.advance(seconds(90));
            world.take_log();
            for number in 2..=6 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            let told: Vec<_> = world
                .take_log()
                .into_iter()
                .filter_map(|event| match event {
                    LogEvent::QueueFull { client_id, unacknowledged, waiting_ms, .. } => {
                        Some((client_id, unacknowledged, waiting_ms))
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(told, [("sleepy".to_owned(), Some(stuck_id.get()), 90_000)], "{overflow:?}");
            drain(world, &subscriber);
            subscriber.puback(stuck_id);
            drain(world, &subscriber);
            publisher.publish(message("t", "7").qos1());
            for number in 8..=12 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            let again = world.take_log().iter().filter(|event| matches!(event, LogEvent::QueueFull { .. })).count();
            assert_eq!(again, 1, "told again after there was room");
        });
    }
}

// ---- subscribers' packet limits ----------------------------------------------------------------------------------------

#[test]
fn a_message_above_a_subscribers_packet_limit_goes_to_the_others() {
    everywhere(|world| {
        let small = world.connect(v5("small").max_packet(60).aliases(5));
        let large = world.connect(v5("large"));
        for client in [&small, &large] {
            client.subscribe("topic/of/some/length", AtLeastOnce);
        }
        let publisher = world.connect(v5("p"));
        for len in [10, 30, 31, 32, 33, 34, 35, 36, 40, 100] {
            publisher.publish(message("topic/of/some/length", vec![b'x'; len]).qos1());
        }
        assert_eq!(large.messages().len(), 10);
        let lens: Vec<usize> = small.messages().iter().map(|got| got.payload.len()).collect();
        assert_eq!(lens.len() as u64 + world.dropped(Reason::SubscriberPacketLimit), 10);
        assert!(lens.len() >= 4, "{lens:?}");
    });
}

// ---- block -------------------------------------------------------------------------------------------------------------

#[test]
fn block_loses_nothing_and_keeps_the_order() {
    everywhere_with(policy(OverflowPolicy::Block, 10), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        let wanted = numbers(1..=200);
        for number in &wanted {
            publisher.send_publish(message("t", number).qos1());
            world.run();
        }
        assert!(world.counters().publishers_parked >= 1);
        assert_eq!(drain(world, &subscriber), wanted);
        assert_eq!(world.counters().dropped_total(), 0);
        assert_eq!(publisher.answers().len(), 200);
        assert_eq!(world.gauges().input_bytes, 0);
    });
}

#[test]
fn what_was_parked_does_not_overrun_the_queue_when_it_goes_on() {
    // All of it arrives in one read, so that it is parked as one piece.
    let world = World::with(1, policy(OverflowPolicy::Block, 10));
    let subscriber = stuck(&world, "s");
    let publisher = world.connect(v5("p"));
    let wanted = numbers(1..=200);
    for number in &wanted {
        publisher.send_publish(message("t", number).qos1());
    }
    assert_eq!(drain(&world, &subscriber), wanted);
    assert_eq!(world.counters().dropped_total(), 0);
}

#[test]
fn a_parked_publishers_acknowledgements_and_pings_go_on() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p").manual());
        publisher.subscribe("news", ExactlyOnce);
        for number in 1..=8 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        while publisher.take_arrival().is_some() {}
        assert_eq!(world.counters().publishers_parked, 1);
        publisher.ping();
        let other = world.connect(v5("other"));
        other.publish(message("news", "1").qos1());
        other.publish(message("news", "2").qos2());
        publisher.puback(publisher.expect_publish("news", "1").id.unwrap());
        let second = publisher.expect_publish("news", "2").id.unwrap();
        publisher.pubrec(second);
        publisher.expect(PacketType::PubRel);
        publisher.pubcomp(second);
        publisher.ping();
        assert!(!publisher.is_paused());
        assert_eq!(drain(world, &subscriber), numbers(1..=8));
    });
}

#[test]
fn a_parked_publisher_holds_nobody_else_up() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in 1..=8 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        let healthy = world.connect(v5("healthy"));
        healthy.subscribe("u", AtLeastOnce);
        let other = world.connect(v5("other"));
        other.publish(message("u", "x").qos1());
        healthy.expect_publish("u", "x");
        drain(world, &subscriber);
    });
}

#[test]
fn two_clients_that_block_each_other_do_not_wait_for_ever() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let clients: Vec<Client> = (0..2)
            .map(|number| {
                let name = world.name_on(number, &format!("c{number}-"));
                let client = world.connect(v5(&name).receive_maximum(1).manual());
                client.subscribe(&format!("to/{number}"), AtLeastOnce);
                client
            })
            .collect();
        for number in 0..20 {
            for (from, client) in clients.iter().enumerate() {
                client.send_publish(message(&format!("to/{}", 1 - from), number.to_string()).qos1());
            }
            world.run();
        }
        let mut got = [0, 0];
        for _ in 0..100 {
            for (count, client) in got.iter_mut().zip(&clients) {
                *count += drain(world, client).len();
            }
        }
        assert_eq!(got, [20, 20]);
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn parked_packets_are_bounded_and_then_the_socket_is_not_read() {
    everywhere_with(
        |settings| {
            policy(OverflowPolicy::Block, 2)(settings);
            settings.limits.parked_bytes = 1000;
        },
        |world| {
            let subscriber = stuck(world, "s");
            let publisher = world.connect(v5("p").keep_alive(5));
            let wanted: Vec<String> = (0..60).map(|number| format!("{number:0>100}")).collect();
            for payload in &wanted {
                publisher.send_publish(message("t", payload).qos1());
                world.run();
            }
            assert!(publisher.is_paused());
            assert!(publisher.unread_len() > 3000, "{}", publisher.unread_len());
            assert!(world.gauges().input_bytes < 1500, "{:?}", world.gauges());
            world.advance(seconds(20));
            publisher.expect_open();
            assert_eq!(drain(world, &subscriber), wanted);
            assert!(!publisher.is_paused());
            assert_eq!(world.gauges().input_bytes, 0);
        },
    );
}

#[test]
fn nobody_is_parked_longer_than_the_limit() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in 1..=10 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        let before = publisher.answers().len();
        assert!(before < 10);
        world.advance(seconds(30));
        let after = publisher.answers();
        assert_eq!(before + after.len(), 10, "every publish is answered");
        let dropped = world.dropped(Reason::BlockedTooLong);
        assert!(dropped > 0);
        let refused = after.iter().filter(|(_, _, code)| *code == ReasonCode::QuotaExceeded).count() as u64;
        assert_eq!(refused, dropped, "and none that was dropped as taken");
        assert_eq!(drain(world, &subscriber).len() as u64 + dropped, 10);
        // With room again the queue blocks again instead of dropping.
        for number in 11..=20 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        assert_eq!(drain(world, &subscriber), numbers(11..=20));
    });
}

#[test]
fn a_blocking_reader_that_leaves_lets_everyone_go_on() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let subscriber = world.connect(v5("s").receive_maximum(1).manual());
        subscriber.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in 1..=10 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        assert_eq!(world.counters().publishers_parked, 1);
        subscriber.lose();
        assert_eq!(publisher.answers().len(), 10);
        publisher.ping();
    });
}

#[test]
fn a_blocking_reader_that_is_taken_over_lets_everyone_go_on() {
    everywhere_with(policy(OverflowPolicy::Block, 4), |world| {
        let _old = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in 1..=6 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        let new = world.connect(v5("s").lasting());
        let first = new.payloads();
        publisher.publish_later(message("t", "7").qos1());
        let mut all = first;
        all.extend(new.payloads());
        assert_eq!(all, numbers(1..=7));
    });
}

#[test]
fn a_parked_publisher_that_leaves_is_forgotten() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        for number in 1..=10 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        publisher.lose();
        assert_eq!(world.gauges().input_bytes, 0);
        let got = drain(world, &subscriber);
        assert_eq!(got, numbers(1..=got.len() as u32));
        world.advance(minutes(5));
        let next = world.connect(v5("p"));
        next.publish(message("t", "next").qos1());
        assert_eq!(drain(world, &subscriber), ["next"]);
    });
}

#[test]
fn goodbye_behind_parked_messages_is_still_a_goodbye() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("wills/#", AtMostOnce);
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p").will(message("wills/p", "gone")));
        for number in 1..=6 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        publisher.send_bytes(&[0xE0, 0]);
        world.run();
        publisher.expect_open();
        assert_eq!(drain(world, &subscriber), numbers(1..=6));
        assert_eq!(publisher.expect_closed(), Reason::NormalDisconnect);
        watcher.expect_nothing();
    });
}

// ---- links between shards ----------------------------------------------------------------------------------------------

#[test]
fn a_full_link_parks_its_publishers_and_loses_nothing() {
    let world = World::with(2, |settings| settings.limits.shard_link_bytes = 1000);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    let subscriber = world.connect(v5(&there));
    subscriber.subscribe("t", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(0, 1);
    let wanted = numbers(1..=100);
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

// ---- the ceiling -------------------------------------------------------------------------------------------------------

#[test]
fn above_the_memory_ceiling_new_work_is_refused_and_below_it_is_taken_again() {
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
            let subscriber = world.connect(v5(&name).lasting());
            subscriber.subscribe(&name, AtLeastOnce);
            subscriber.lose();
        }
        for number in 0..1000 {
            publisher.publish(message(&format!("s{}", number % 10), vec![b'x'; 1000]).qos1());
        }
        let gauges = world.gauges();
        assert!(gauges.queued_bytes < 110_000, "{overflow:?}: {gauges:?}");
        assert!(gauges.queued_bytes > 50_000, "{overflow:?}: {gauges:?}");
        assert_eq!(gauges.queued_messages + world.counters().dropped_total(), 1000, "{overflow:?}");
        assert_eq!(world.refuses(0), None, "{overflow:?}: queues alone keep nobody out");
    }
}

#[test]
fn a_message_that_fits_no_queue_drives_nothing_out() {
    everywhere_with(
        |settings| {
            settings.queue.overflow = OverflowPolicy::DropOldest;
            settings.queue.max_bytes = 2000;
        },
        |world| {
            let subscriber = stuck(world, "s");
            let publisher = world.connect(v5("p"));
            for number in numbers(1..=4) {
                publisher.publish(message("t", number).qos1());
            }
            publisher.publish(message("t", vec![b'x'; 3000]).qos1());
            assert_eq!(drain(world, &subscriber), numbers(1..=4));
            assert_eq!(world.dropped(Reason::QueueFullNewest), 1);
        },
    );
}

#[test]
fn a_queue_of_no_messages_drops_with_a_reason_what_cannot_be_sent_at_once() {
    for overflow in [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest] {
        everywhere_with(policy(overflow, 0), |world| {
            let subscriber = stuck(world, "s");
            let publisher = world.connect(v5("p"));
            for number in numbers(1..=3) {
                publisher.publish(message("t", number).qos1());
            }
            assert_eq!(drain(world, &subscriber), ["1"]);
            assert_eq!(world.dropped(Reason::QueueFullNewest), 2);
            publisher.publish(message("t", "4").qos1());
            assert_eq!(drain(world, &subscriber), ["4"]);
        });
    }
}

#[test]
fn more_publishers_than_a_queue_has_places_lose_nothing() {
    everywhere_with(policy(OverflowPolicy::Block, 3), |world| {
        let subscriber = stuck(world, "s");
        let publishers: Vec<Client> = (0..12).map(|number| world.connect(v5(&format!("p{number}")))).collect();
        for number in 0..10 {
            for publisher in &publishers {
                publisher.send_publish(message("t", format!("{} {number}", publisher.id())).qos1());
            }
        }
        let got = drain(world, &subscriber);
        assert_eq!(got.len(), 120);
        for publisher in &publishers {
            let of_one: Vec<&String> =
                got.iter().filter(|text| text.split(' ').next() == Some(publisher.id())).collect();
            assert!(of_one.len() == 10 && of_one.is_sorted(), "{of_one:?}");
            assert_eq!(publisher.answers().len(), 10);
        }
        assert_eq!(world.counters().dropped_total(), 0);
    });
}

#[test]
fn a_client_that_reads_nothing_at_all_is_found_out_by_its_keep_alive() {
    everywhere_with(
        |settings| settings.limits.output_high_water = 1000,
        |world| {
            let client = world.connect(v5("a").keep_alive(10));
            client.stop_reading();
            for _ in 0..10 {
                client.send_bytes(&PingReq::BYTES.repeat(500));
                world.run();
            }
            assert!(client.is_paused());
            world.advance(seconds(14));
            client.expect_open();
            world.advance(seconds(1));
            assert_eq!(client.closed(), Some(Reason::KeepAliveTimeout));
        },
    );
}

#[test]
fn a_slow_reader_is_alive_while_it_reads() {
    everywhere_with(
        |settings| settings.limits.output_high_water = 1000,
        |world| {
            let client = world.connect(v5("a").keep_alive(10));
            client.stop_reading();
            for _ in 0..10 {
                client.send_bytes(&PingReq::BYTES.repeat(500));
                world.run();
            }
            for _ in 0..8 {
                world.advance(seconds(10));
                client.read_bytes(100);
            }
            client.expect_open();
        },
    );
}

#[test]
fn a_shard_full_of_waiting_messages_lets_their_readers_in() {
    let world = World::with(1, |settings| settings.limits.memory_ceiling = 50_000);
    let subscriber = world.connect(v5("s").lasting());
    subscriber.subscribe("t", AtLeastOnce);
    subscriber.lose();
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

#[test]
fn wills_count_for_the_ceiling_and_a_shard_full_of_them_takes_no_more() {
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
    assert_eq!(world.refuses(0), None, "whoever says goodbye takes the will along");
}

#[test]
fn subscriptions_count_for_the_ceiling_and_what_is_there_may_be_renewed() {
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

#[test]
fn a_repetition_does_not_wait_behind_a_parked_publish_until_it_looks_new() {
    everywhere_with(policy(OverflowPolicy::Block, 1), |world| {
        let subscriber = world.connect(v5("s").lasting().receive_maximum(1).manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v311("p").manual());
        let id = tidegate_mqtt::PacketId::new(9).unwrap();
        publisher.send_publish(message("t", "1").qos2().id(7));
        publisher.send_publish(message("t", "2").qos2().id(8));
        publisher.send_publish(message("t", "3").qos2().id(9));
        world.run();
        // The publisher waits by now; it repeats what was taken and releases it then.
        publisher.send_publish(message("t", "4").qos2().id(10));
        publisher.send_publish(message("t", "3").qos2().id(9).dup());
        world.run();
        while publisher.take_arrival().is_some() {}
        publisher.pubrel(id);
        world.run();
        let mut got = Vec::new();
        while let Some(arrival) = subscriber.take_arrival() {
            if let Some(delivered) = arrival.delivered() {
                got.push(delivered.text());
                subscriber.pubrec(delivered.id.unwrap());
                world.run();
                subscriber.pubcomp(delivered.id.unwrap());
                world.run();
            }
        }
        assert_eq!(got, ["1", "2", "3", "4"]);
    });
}

#[test]
fn what_comes_to_the_front_of_a_full_queue_and_needs_no_window_is_sent() {
    everywhere_with(policy(OverflowPolicy::DropOldest, 2), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "in flight").qos1());
        publisher.publish(message("t", "waits").qos1());
        publisher.publish(message("t", "at most once"));
        assert_eq!(subscriber.payloads(), ["in flight"]);
        publisher.publish(message("t", "newest").qos1());
        assert_eq!(subscriber.payloads(), ["at most once"]);
        assert_eq!(drain(world, &subscriber), Vec::<String>::new());
        assert_eq!((world.dropped(Reason::QueueFullOldest), world.gauges().queued_messages), (1, 1));
    });
}

#[test]
fn what_a_parked_publisher_sent_before_it_left_is_not_lost() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("wills/#", AtMostOnce);
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v5("p").will(message("wills/p", "gone")));
        for number in 1..=8 {
            publisher.send_publish(message("t", number.to_string()));
            world.run();
        }
        assert_eq!(world.counters().publishers_parked, 0, "QoS 0 does not need the window");
        for number in 1..=8 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        assert_eq!(world.counters().publishers_parked, 1);
        publisher.send_bytes(&[0xE0, 0]);
        publisher.lose();
        assert_eq!(publisher.expect_closed(), Reason::NormalDisconnect);
        watcher.expect_nothing();
        let wanted: Vec<String> = numbers(1..=8).into_iter().chain(numbers(1..=8)).collect();
        assert_eq!(drain(world, &subscriber), wanted);
        assert_eq!((world.counters().dropped_total(), world.gauges().input_bytes), (0, 0));
    });
}

#[test]
fn a_publisher_with_many_subscribers_does_not_keep_others_waiting() {
    let world = World::new(1);
    let many: Vec<Client> = (0..500).map(|number| world.connect(v311(&format!("s{number}")))).collect();
    for client in &many {
        client.subscribe("flood", AtMostOnce);
    }
    let flood = world.connect(v311("flood"));
    let other = world.connect(v311("other"));
    other.subscribe("other", AtMostOnce);
    for number in 0..30 {
        flood.send_publish(message("flood", format!("{number}")));
    }
    flood.send_bytes(&PingReq::BYTES);
    other.send_publish(message("other", "at once"));
    world.turns();
    let delivered = || world.counters().messages_out[0];
    assert!((4_000..15_000).contains(&delivered()), "{}", delivered());
    assert!(other.has_arrived(PacketType::Publish), "nobody else waits");
    assert!(flood.has_arrived(PacketType::PingResp), "nor do its own pings");
    world.run();
    assert_eq!(delivered(), 500 * 30 + 1);
}

#[test]
fn what_a_publisher_has_sent_before_it_is_gone_takes_its_turns_too() {
    let world = World::new(1);
    let many: Vec<Client> = (0..500).map(|number| world.connect(v311(&format!("s{number}")))).collect();
    for client in &many {
        client.subscribe("flood", AtMostOnce);
    }
    let flood = world.connect(v311("flood"));
    for number in 0..60 {
        flood.send_publish(message("flood", format!("{number}")));
    }
    let delivered = || world.counters().messages_out[0];
    world.turns();
    flood.cut(usize::MAX);
    world.turns();
    assert!(delivered() < 20_000, "{}", delivered());
    assert_eq!(world.gauges().connections, 501, "it ends when all of it is worked off");
    world.run();
    assert_eq!(delivered(), 500 * 60);
    assert_eq!(world.gauges().connections, 500);
}
