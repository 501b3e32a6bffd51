//! With the policy `reject`, either all subscribers get a message or none, and its publisher knows.

use tidegate_engine::{Delay, LogEvent, OverflowPolicy, OverflowRule, Reason, Settings};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use crate::harness::*;

fn rejecting(max_messages: u32) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.queue.overflow = OverflowPolicy::Reject;
        settings.queue.max_messages = max_messages;
        settings.limits.block_timeout_ms = seconds(30);
    }
}

/// A client that has one message in flight and takes no other before it acknowledges.
fn stuck(world: &World, name: &str) -> Client {
    let client = world.connect(v5(name).lasting().receive_maximum(1).manual());
    client.subscribe("t", ExactlyOnce);
    client
}

#[test]
fn no_subscriber_gets_a_message_that_one_has_no_room_for() {
    everywhere_with(rejecting(2), |world| {
        let slow = stuck(world, "slow");
        let others: Vec<Client> = (0..4)
            .map(|n| {
                let other = world.connect(v5(&format!("other-{n}")));
                other.subscribe("t", AtLeastOnce);
                other
            })
            .collect();
        let publisher = world.connect(v5("p"));
        let codes: Vec<_> = (1..=5).map(|n| publisher.publish(message("t", n.to_string()).qos1())).collect();
        assert_eq!(codes[..3], [ReasonCode::Success; 3]);
        assert_eq!(codes[3..], [ReasonCode::QuotaExceeded; 2]);
        for other in &others {
            assert_eq!(other.payloads(), ["1", "2", "3"]);
        }
        assert_eq!(world.dropped(Reason::QueueFullReject), 2);
        let named: Vec<_> = world
            .take_log()
            .into_iter()
            .filter_map(|event| match event {
                LogEvent::Denied { held_up_by, reason: Reason::QueueFullReject, .. } => Some(held_up_by),
                _ => None,
            })
            .collect();
        let known = slow.shard() == publisher.shard();
        assert_eq!(named, vec![known.then(|| "slow".to_owned()); 2]);
        assert_eq!(slow.drain(), ["1", "2", "3"]);
        assert_eq!(publisher.publish(message("t", "6").qos1()), ReasonCode::Success);
        assert_eq!(slow.drain(), ["6"]);
    });
}

#[test]
fn a_rejected_qos_2_message_leaves_its_packet_id_free() {
    everywhere_with(rejecting(1), |world| {
        let slow = stuck(world, "slow");
        let publisher = world.connect(v5("p"));
        for n in 1..=2 {
            assert_eq!(publisher.publish(message("t", n.to_string()).qos2()), ReasonCode::Success);
        }
        publisher.send_publish(message("t", "3").qos2().id(77));
        world.run();
        let answers = publisher.answers();
        assert!(answers.contains(&(PacketType::PubRec, 77, ReasonCode::QuotaExceeded)), "{answers:?}");
        assert_eq!(slow.drain(), ["1", "2"]);
        publisher.send_publish(message("t", "4").qos2().id(77));
        world.run();
        assert_eq!(slow.drain(), ["4"], "it is a new message, not a repetition");
    });
}

#[test]
fn subscribers_of_qos_0_do_not_count() {
    everywhere_with(rejecting(1), |world| {
        let slow = world.connect(v5("slow"));
        slow.subscribe("t", AtMostOnce);
        slow.stop_reading();
        let publisher = world.connect(v5("p"));
        let text = "x".repeat(200_000);
        for _ in 0..5 {
            assert_eq!(publisher.publish(message("t", &text).qos1()), ReasonCode::Success);
        }
        assert!(world.dropped(Reason::QueueFullReject) > 0);
    });
}

#[test]
fn a_subscriber_that_is_away_rejects_as_well() {
    everywhere_with(rejecting(2), |world| {
        stuck(world, "away").lose();
        let publisher = world.connect(v5("p"));
        let codes: Vec<_> = (1..=3).map(|n| publisher.publish(message("t", n.to_string()).qos1())).collect();
        assert_eq!(codes, [ReasonCode::Success, ReasonCode::Success, ReasonCode::QuotaExceeded]);
        let back = world.connect(v5("away").lasting().manual());
        assert_eq!(back.drain(), ["1", "2"]);
    });
}

#[test]
fn only_clients_and_topics_of_a_rule_reject() {
    let rules = |settings: &mut Settings| {
        settings.queue.max_messages = 1;
        settings.overflow_rules = vec![OverflowRule {
            clients: "bill-*".into(),
            filter: Some("t".into()),
            policy: OverflowPolicy::Reject,
            max_messages: Some(2),
            max_bytes: None,
        }];
    };
    everywhere_with(rules, |world| {
        let (bill, other) = (stuck(world, "bill-1"), stuck(world, "other"));
        let publisher = world.connect(v5("p"));
        let codes: Vec<_> = (1..=4).map(|n| publisher.publish(message("t", n.to_string()).qos1())).collect();
        assert_eq!(codes[2..], [ReasonCode::Success, ReasonCode::QuotaExceeded]);
        assert_eq!(bill.drain(), ["1", "2", "3"]);
        assert_eq!(other.drain(), ["1", "2"]);
        assert_eq!(world.dropped(Reason::QueueFullNewest), 1);
    });
}

#[test]
fn an_mqtt_3_acknowledgement_is_withheld_until_there_is_room() {
    everywhere_with(rejecting(2), |world| {
        let slow = stuck(world, "slow");
        let quick = world.connect(v5("quick"));
        quick.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v311("p").lasting());
        for n in 1..=6 {
            publisher.send_publish(message("t", n.to_string()).qos1());
        }
        world.run();
        assert_eq!(publisher.answers().len(), 3);
        assert_eq!(quick.payloads(), ["1", "2", "3"], "no subscriber gets a withheld message");
        let delay = world.take_log().into_iter().find_map(|event| match event {
            LogEvent::Delayed { delay, .. } => Some(delay),
            _ => None,
        });
        let known = slow.shard() == publisher.shard();
        assert_eq!(delay, Some(Delay::Queue(known.then(|| "slow".to_owned()))));
        publisher.ping();
        assert_eq!(slow.drain(), ["1", "2", "3", "4", "5", "6"]);
        assert_eq!(publisher.answers().len(), 3);
        assert_eq!(quick.payloads(), ["4", "5", "6"]);
        assert_eq!(world.counters().dropped_total(), 0);
        assert_eq!(world.counters().messages_in[1], 6);
    });
}

#[test]
fn a_waiting_mqtt_3_publisher_is_closed_and_sends_again() {
    everywhere_with(rejecting(1), |world| {
        let slow = stuck(world, "slow");
        let publisher = world.connect(v311("p").lasting());
        for n in 1..=3 {
            publisher.send_publish(message("t", n.to_string()).qos1().id(n));
        }
        world.run();
        world.advance(seconds(29));
        publisher.expect_open();
        world.take_log();
        world.advance(seconds(2));
        assert_eq!(publisher.closed(), Some(Reason::RejectedTooLong));
        let told = world.take_log();
        let disconnected =
            |event: &LogEvent| matches!(event, LogEvent::Disconnected { reason: Reason::RejectedTooLong, .. });
        assert!(told.iter().any(disconnected), "{told:?}");
        assert_eq!(slow.drain(), ["1", "2"]);
        let again = world.connect(v311("p").lasting());
        again.send_publish(message("t", "3").qos1().id(3).dup());
        assert_eq!(slow.drain(), ["3"]);
    });
}

#[test]
fn a_leaving_publisher_leaves_no_room_reserved() {
    for version in [v5, v311] {
        everywhere_with(rejecting(1), |world| {
            let slow = stuck(world, "slow");
            let filler = world.connect(v5("f"));
            filler.publish(message("t", "1").qos1());
            filler.publish(message("t", "2").qos1());
            let publisher = world.connect(version("p"));
            publisher.send_publish(message("t", "3").qos1());
            world.run_some(2);
            publisher.lose();
            world.run();
            assert_eq!(slow.drain(), ["1", "2"]);
            assert_eq!(filler.publish(message("t", "4").qos1()), ReasonCode::Success);
            assert_eq!(slow.drain(), ["4"]);
        });
    }
}

#[test]
fn whatever_the_order_of_events_all_get_a_message_or_none() {
    let mut all_rejected = 0;
    for seed in 0..150 {
        let world = World::seeded(3, seed, "all or nothing", rejecting(3));
        let subscribers: Vec<Client> = (0..4)
            .map(|n| {
                let maximum = [1, 2, 5, 50][n];
                let client = world.connect(v5(&format!("s{n}")).lasting().receive_maximum(maximum).manual());
                client.subscribe("t", AtLeastOnce);
                client
            })
            .collect();
        let publishers: Vec<Client> = (0..4)
            .map(|n| world.connect(if n % 2 == 0 { v5(&format!("p{n}")) } else { v311(&format!("p{n}")) }))
            .collect();
        let mut random = Random::new(seed);
        let mut got: Vec<Vec<String>> = vec![Vec::new(); subscribers.len()];
        for round in 0..12 {
            for (n, publisher) in publishers.iter().enumerate() {
                publisher.send_publish(message("t", format!("{n}-{round:02}")).qos1());
            }
            world.run_some(random.below(60));
            for (client, got) in subscribers.iter().zip(&mut got) {
                if random.percent(60) {
                    take(client, got);
                }
            }
        }
        for _ in 0..200 {
            world.run();
            for (client, got) in subscribers.iter().zip(&mut got) {
                take(client, got);
            }
        }
        let sorted = |got: &Vec<String>| {
            let mut got = got.clone();
            got.sort();
            got
        };
        let first = sorted(&got[0]);
        assert!(got.iter().all(|other| sorted(other) == first), "seed {seed}: {got:?}");
        let (accepted, rejected): (Vec<_>, Vec<_>) =
            publishers.iter().flat_map(Client::answers).partition(|(_, _, code)| !code.is_error());
        assert_eq!(accepted.len(), first.len(), "seed {seed}");
        assert_eq!(accepted.len() + rejected.len(), 48, "seed {seed}");
        assert_eq!(world.counters().dropped_total(), rejected.len() as u64);
        all_rejected += rejected.len();
    }
    assert!(all_rejected > 300, "only {all_rejected} were rejected");
}

/// Takes and acknowledges whatever has arrived.
fn take(client: &Client, got: &mut Vec<String>) {
    while let Some(arrival) = client.take_arrival() {
        if let Some(delivered) = arrival.delivered() {
            got.push(delivered.text());
            if let Some(id) = delivered.id {
                client.puback(id);
            }
        }
    }
}
