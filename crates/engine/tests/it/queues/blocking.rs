//! `block`: a publisher that fills a queue waits, loses nothing, and its other packets are served.

use tidegate_engine::{OverflowPolicy, Reason, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use super::{numbers, policy, stuck};
use crate::harness::*;

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
        assert_eq!(subscriber.drain(), wanted);
        assert_eq!(world.counters().dropped_total(), 0);
        assert_eq!(publisher.answers().len(), 200);
        assert_eq!(world.gauges().input_bytes, 0);
    });
}

/// Queues that block have room for a few messages of 1,000 bytes.
fn a_few_messages(settings: &mut Settings) {
    policy(OverflowPolicy::Block, 1_000_000)(settings);
    settings.queue.max_bytes = 4_000;
    settings.limits.shard_link_bytes = 1_000;
}

#[test]
fn a_message_beyond_twice_the_limit_is_refused() {
    everywhere_with(a_few_messages, |world| {
        let subscriber = stuck(world, "s");
        let text = "x".repeat(1_000);
        // Each publisher has one message in flight when it is asked to wait.
        let publish = |n: u32| world.connect(v5(&format!("p-{n}"))).publish(message("t", &text).qos1());
        let codes: Vec<ReasonCode> = (0..40).map(publish).collect();
        let taken = codes.iter().filter(|code| **code == ReasonCode::Success).count();
        assert!((1..40).contains(&taken), "{codes:?}");
        assert!(codes[taken..].iter().all(|code| *code == ReasonCode::QuotaExceeded), "{codes:?}");
        assert_eq!(subscriber.drain().len(), taken);
    });
}

#[test]
fn parked_packets_do_not_overrun_the_queue_when_released() {
    // All of it arrives in one read, so that it is parked as one piece.
    let world = World::with(1, policy(OverflowPolicy::Block, 10));
    let subscriber = stuck(&world, "s");
    let publisher = world.connect(v5("p"));
    let wanted = numbers(1..=200);
    for number in &wanted {
        publisher.send_publish(message("t", number).qos1());
    }
    assert_eq!(subscriber.drain(), wanted);
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
        assert_eq!(subscriber.drain(), numbers(1..=8));
    });
}

#[test]
fn a_parked_publisher_delays_no_other_client() {
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
        subscriber.drain();
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
                *count += client.drain().len();
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
            assert_eq!(subscriber.drain(), wanted);
            assert!(!publisher.is_paused());
            assert_eq!(world.gauges().input_bytes, 0);
        },
    );
}

#[test]
fn no_publisher_is_parked_longer_than_the_limit() {
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
        assert_eq!(subscriber.drain().len() as u64 + dropped, 10);
        // With room again the queue blocks again instead of dropping.
        for number in 11..=20 {
            publisher.send_publish(message("t", number.to_string()).qos1());
            world.run();
        }
        assert_eq!(subscriber.drain(), numbers(11..=20));
    });
}

#[test]
fn an_mqtt_3_publisher_of_a_dropped_message_is_closed() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let subscriber = stuck(world, "s");
        let publisher = world.connect(v311("p").lasting());
        for number in 1..=10 {
            publisher.send_publish(message("t", number.to_string()).qos1().id(number));
            world.run();
        }
        world.advance(seconds(31));
        assert_eq!(publisher.closed(), Some(Reason::BlockedTooLong));
        assert!(world.dropped(Reason::BlockedTooLong) > 0);
        let acknowledged = publisher.answers().len();
        let got = subscriber.drain();
        assert_eq!(got, numbers(1..=got.len() as u32));
        assert!(acknowledged < 10 && acknowledged <= got.len(), "{acknowledged} of {got:?}");
        // With room again the client sends the others again.
        let again = world.connect(v311("p").lasting());
        for number in acknowledged + 1..=10 {
            again.send_publish(message("t", number.to_string()).qos1().id(u16::try_from(number).unwrap()).dup());
            world.run();
        }
        let mut all = got;
        all.extend(subscriber.drain());
        all.dedup();
        assert_eq!(all, numbers(1..=10));
        assert_eq!(again.answers().len(), 10 - acknowledged);
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
        let got = subscriber.drain();
        assert_eq!(got, numbers(1..=got.len() as u32));
        world.advance(minutes(5));
        let next = world.connect(v5("p"));
        next.publish(message("t", "next").qos1());
        assert_eq!(subscriber.drain(), ["next"]);
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
        assert_eq!(subscriber.drain(), numbers(1..=6));
        assert_eq!(publisher.expect_closed(), Reason::NormalDisconnect);
        watcher.expect_nothing();
    });
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
        let got = subscriber.drain();
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
fn a_repetition_does_not_wait_behind_a_parked_publish() {
    everywhere_with(policy(OverflowPolicy::Block, 1), |world| {
        let subscriber = world.connect(v5("s").lasting().receive_maximum(1).manual());
        subscriber.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v311("p").manual());
        publisher.send_publish(message("t", "1").qos2().id(7));
        publisher.send_publish(message("t", "2").qos2().id(8));
        publisher.send_publish(message("t", "3").qos2().id(9));
        world.run();
        // The publisher waits by now; it repeats a message taken before and releases it then.
        publisher.send_publish(message("t", "4").qos2().id(10));
        publisher.send_publish(message("t", "3").qos2().id(9).dup());
        world.run();
        while publisher.take_arrival().is_some() {}
        publisher.pubrel(id(9));
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
fn packets_of_a_parked_publisher_that_left_are_not_lost() {
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
        assert_eq!(subscriber.drain(), wanted);
        assert_eq!((world.counters().dropped_total(), world.gauges().input_bytes), (0, 0));
    });
}

/// Ten QoS 2 messages to a queue that takes a few of them and then gives up. A client beside it takes all it gets.
fn ten_to_a_queue_that_gives_up(world: &World, publisher: Client) -> (Client, Client, Client) {
    let subscriber = world.connect(v5("s").lasting().receive_maximum(1).manual());
    subscriber.subscribe("t", ExactlyOnce);
    let other = world.connect(v5("other"));
    other.subscribe("t", ExactlyOnce);
    for number in 1..=10 {
        publisher.send_publish(message("t", number.to_string()).qos2().id(number));
        world.run();
    }
    world.advance(seconds(31));
    world.run();
    (subscriber, other, publisher)
}

#[test]
fn a_qos_2_message_for_a_queue_that_gave_up_is_refused() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let (subscriber, other, publisher) = ten_to_a_queue_that_gives_up(world, world.connect(v5("p")));
        let answers = publisher.answers();
        let of = |code| {
            let answers = answers.iter().filter(move |(kind, _, of)| *kind == PacketType::PubRec && *of == code);
            answers.map(|(_, id, _)| id.to_string()).collect::<Vec<_>>()
        };
        let (taken, refused) = (of(ReasonCode::Success), of(ReasonCode::QuotaExceeded));
        assert_eq!(taken.len() + refused.len(), 10, "{answers:?}");
        assert!(!refused.is_empty());
        assert_eq!(world.dropped(Reason::BlockedTooLong), refused.len() as u64);
        assert_eq!(other.payloads(), taken, "no subscriber gets a refused message");
        assert_eq!(subscriber.drain(), taken);
        // The refused messages are published again, under packet identifiers that are free.
        for number in &refused {
            assert_eq!(publisher.publish(message("t", number).qos2()), ReasonCode::Success);
            assert_eq!(subscriber.drain(), [number.as_str()]);
        }
        assert_eq!(other.payloads(), refused);
    });
}

#[test]
fn an_mqtt_3_publisher_sends_a_refused_qos_2_message_again() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let publisher = world.connect(v311("p").lasting());
        let (subscriber, other, publisher) = ten_to_a_queue_that_gives_up(world, publisher);
        assert_eq!(publisher.closed(), Some(Reason::BlockedTooLong));
        let taken: Vec<u16> =
            publisher.answers().into_iter().filter(|(kind, ..)| *kind == PacketType::PubRec).map(|it| it.1).collect();
        let mut got = subscriber.drain();
        assert!(got.len() < 10);
        assert_eq!(got, numbers(1..=taken.len() as u32), "only messages that were taken");
        let again = world.connect(v311("p").lasting());
        for number in (1..=10).filter(|number| !taken.contains(number)) {
            again.send_publish(message("t", number.to_string()).qos2().id(number).dup());
            world.run();
            got.extend(subscriber.drain());
        }
        assert_eq!(got, numbers(1..=10));
        assert_eq!(other.payloads(), numbers(1..=10), "each message comes once");
    });
}

#[test]
fn a_queue_that_gave_up_refuses_nothing_without_its_client() {
    everywhere_with(policy(OverflowPolicy::Block, 2), |world| {
        let (subscriber, other, publisher) = ten_to_a_queue_that_gives_up(world, world.connect(v5("p")));
        subscriber.disconnect();
        publisher.answers();
        other.payloads();
        let dropped = world.dropped(Reason::QueueFullNewest);
        assert_eq!(publisher.publish(message("t", "11").qos2()), ReasonCode::Success);
        assert_eq!(other.payloads(), ["11"]);
        assert_eq!(world.dropped(Reason::QueueFullNewest), dropped + 1, "as at QoS 1");
    });
}

#[test]
fn a_full_queue_beside_others_refuses_a_qos_2_message_once() {
    // The first of them fills up to its hard bound, beyond which no publisher waits.
    everywhere_with(a_few_messages, |world| {
        let subscriber = stuck(world, "s");
        let other = world.connect(v5("other"));
        other.subscribe("t", ExactlyOnce);
        let text = "x".repeat(1_000);
        let publish = |n: u32| world.connect(v5(&format!("p-{n}"))).publish(message("t", &text).qos2());
        let codes: Vec<ReasonCode> = (0..40).map(publish).collect();
        let taken = codes.iter().filter(|code| **code == ReasonCode::Success).count();
        assert!((1..40).contains(&taken), "{codes:?}");
        assert!(codes[taken..].iter().all(|code| *code == ReasonCode::QuotaExceeded), "{codes:?}");
        assert_eq!(subscriber.drain().len(), taken);
        assert_eq!(other.payloads().len(), taken);
    });
}
