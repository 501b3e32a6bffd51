//! The decisions of a queue's policy survive the end of the process, and the policy continues.

use tidegate_engine::{OverflowPolicy, PriorityRule, PrioritySource};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use super::*;

fn rejecting(settings: &mut Settings) {
    settings.queue.overflow = OverflowPolicy::Reject;
    settings.queue.max_messages = 2;
    settings.limits.block_timeout_ms = seconds(30);
}

/// An offline session that is owed the messages of a filter.
fn away(world: &World, name: &str, filter: &str) {
    world.absent_subscriber(v5(name).lasting(), filter, ExactlyOnce);
}

/// Connects, takes one message after the other, and leaves.
fn taken(world: &World, name: &str) -> Vec<String> {
    let client = world.connect(v5(name).lasting().receive_maximum(1).manual());
    let mut payloads = Vec::new();
    loop {
        world.run();
        let Some(arrival) = client.take_arrival() else { break };
        if let Some(got) = arrival.delivered() {
            payloads.push(got.text());
            let id = got.id.unwrap();
            if got.qos == ExactlyOnce { client.pubrec(id) } else { client.puback(id) }
        } else if let tidegate_mqtt::Packet::PubRel(release) = arrival.packet() {
            client.pubcomp(release.packet_id);
        }
    }
    client.lose();
    payloads
}

#[test]
fn rejected_messages_stay_rejected_after_a_restart() {
    for (from, to) in RESTARTS {
        let world = stored_with(from, rejecting);
        away(&world, "full", "t");
        for n in 0..4 {
            away(&world, &format!("other-{n}"), "t");
        }
        let publisher = world.connect(v5("p"));
        let publish = |publisher: &Client, n: u32| {
            publisher.publish(message("t", n.to_string()).qos(if n.is_multiple_of(2) {
                AtLeastOnce
            } else {
                ExactlyOnce
            }))
        };
        assert_eq!([publish(&publisher, 1), publish(&publisher, 2)], [ReasonCode::Success; 2]);
        assert_eq!(taken(&world, "other-0"), ["1", "2"]);
        assert_eq!(publish(&publisher, 3), ReasonCode::QuotaExceeded);
        world.crash(Crash::now(to));
        let publisher = world.connect(v5("p"));
        assert_eq!(publish(&publisher, 4), ReasonCode::QuotaExceeded, "the queue is full still");
        assert_eq!(taken(&world, "other-0"), [""; 0], "no subscriber gets a message that one has no room for");
        for name in ["full", "other-1", "other-2", "other-3"] {
            assert_eq!(taken(&world, name), ["1", "2"], "{from} to {to} shards");
        }
        assert_eq!(publish(&publisher, 5), ReasonCode::Success, "reserved room has not leaked");
        assert_eq!(publish(&publisher, 6), ReasonCode::Success);
        world.crash(Crash::now(from));
        for name in ["full", "other-0", "other-1", "other-2", "other-3"] {
            assert_eq!(taken(&world, name), ["5", "6"], "{from} to {to} shards");
        }
    }
}

#[test]
fn room_that_was_reserved_when_the_process_died_is_free_again() {
    for kept in 0..4 {
        let world = stored_with(3, rejecting);
        let names: Vec<String> = (0..3).map(|shard| world.name_on(shard, "s")).collect();
        for name in &names {
            away(&world, name, "t");
        }
        let publisher = world.connect(v5("p"));
        world.run();
        world.hold_commits();
        for number in 1..=4 {
            publisher.send_publish(message("t", number.to_string()).qos1().id(number));
        }
        // Somewhere between asking for room and delivering.
        world.run_some(5 + 7 * kept);
        let answered = publisher.answers();
        world.crash(Crash { kept, ..Crash::now(3) });
        world.release_commits();
        let publisher = world.connect(v5("p"));
        let before: Vec<Vec<String>> = names.iter().map(|name| taken(&world, name)).collect();
        for (_, id, code) in answered {
            if code == ReasonCode::Success {
                assert!(before.iter().all(|got| got.contains(&id.to_string())), "{id} was acknowledged: {before:?}");
            }
        }
        for text in ["x", "y"] {
            assert_eq!(publisher.publish(message("t", text).qos1()), ReasonCode::Success, "{kept} batches kept");
        }
        assert_eq!(publisher.publish(message("t", "z").qos1()), ReasonCode::QuotaExceeded);
        for name in &names {
            assert_eq!(taken(&world, name), ["x", "y"]);
        }
    }
}

#[test]
fn a_withheld_message_is_taken_once_after_a_restart() {
    for (from, to) in RESTARTS {
        let world = stored_with(from, rejecting);
        away(&world, "full", "t");
        let publisher = world.connect(v311("p").lasting().manual());
        for number in 1..=3 {
            publisher.send_publish(message("t", number.to_string()).qos2().id(number));
        }
        publisher.expect(PacketType::PubRec);
        publisher.expect(PacketType::PubRec);
        publisher.expect_nothing();
        world.crash(Crash::now(to));
        assert_eq!(taken(&world, "full"), ["1", "2"]);
        let publisher = world.connect(v311("p").lasting().manual());
        for _ in 0..2 {
            publisher.open_exchange(message("t", "3").qos2().id(3).dup());
        }
        world.crash(Crash::now(from));
        let publisher = world.connect(v311("p").lasting().manual());
        publisher.open_exchange(message("t", "3").qos2().id(3).dup());
        publisher.end_exchange(id(3));
        assert_eq!(taken(&world, "full"), ["3"]);
    }
}

#[test]
fn keep_last_holds_and_replaces_after_a_restart() {
    for (from, to) in RESTARTS {
        let world = stored_with(from, |settings| settings.queue.overflow = OverflowPolicy::KeepLast);
        away(&world, "dash", "#");
        let publish = |world: &World, rounds: std::ops::RangeInclusive<u32>| {
            let publisher = world.connect(v5("p"));
            for round in rounds {
                for topic in ["a", "b"] {
                    publisher.publish(message(topic, format!("{topic}{round}")).qos1());
                }
            }
        };
        publish(&world, 1..=5);
        world.crash(Crash::now(to));
        assert_eq!(world.gauges().queued_messages + world.gauges().stored_messages, 2);
        publish(&world, 6..=7);
        assert_eq!(world.gauges().queued_messages + world.gauges().stored_messages, 2, "replaced as before");
        world.crash(Crash { swept: true, ..Crash::now(from) });
        assert_eq!(taken(&world, "dash"), ["a7", "b7"], "{from} to {to} shards");
        world.crash(Crash::now(to));
        assert_eq!(taken(&world, "dash"), [""; 0]);
    }
}

#[test]
fn a_crash_leaves_the_newest_acknowledged_of_a_topic() {
    for kept in 0..12 {
        let world = stored_with(1, |settings| settings.queue.overflow = OverflowPolicy::KeepLast);
        away(&world, "dash", "#");
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "0").qos1());
        world.hold_commits();
        for number in 1..=10_u16 {
            publisher.send_publish(message("t", number.to_string()).qos1().id(number));
            world.run();
        }
        world.commit(kept / 2);
        world.run();
        world.crash(Crash { kept: kept % 3, ..Crash::now(1) });
        world.release_commits();
        let acknowledged = publisher.answers().into_iter().map(|(_, id, _)| id).max().unwrap_or(0);
        assert_eq!(acknowledged > 0, kept > 1, "{kept} batches kept");
        let got = taken(&world, "dash");
        assert_eq!(got.len(), 1, "{kept} batches kept: {got:?}");
        assert!(got[0].parse::<u16>().unwrap() >= acknowledged, "{got:?}, and {acknowledged} was acknowledged");
    }
}

#[test]
fn higher_priorities_go_first_after_a_restart_as_well() {
    const LEVELS: [u8; 16] = [0, 2, 1, 9, 0, 2, 1, 5, 0, 2, 1, 9, 0, 2, 1, 7];
    let by_property = |settings: &mut Settings| {
        settings.priority = vec![PriorityRule { filter: "#".into(), source: PrioritySource::Property, default: 2 }];
        settings.queue.lower_priority_share = 0;
        // Most of a queue would wait in the store alone, if priorities did not keep it in memory.
        settings.queue.memory_bytes = 1_000;
    };
    let mut expected: Vec<String> = (0..).zip(LEVELS).map(|(number, level)| format!("{level}-{number:02}")).collect();
    expected.sort_by_key(|text| (std::cmp::Reverse(text[..1].to_owned()), text[2..].to_owned()));
    for (from, to) in RESTARTS {
        let world = stored_with(from, by_property);
        away(&world, "s", "#");
        let publisher = world.connect(v5("p"));
        for (number, level) in LEVELS.iter().enumerate() {
            if number == 8 {
                world.crash(Crash::now(to));
            }
            let publisher = if number < 8 { &publisher } else { &world.connect(v5("p")) };
            let sent = message(&format!("t/{}", number % 3), format!("{level}-{number:02}"));
            publisher.publish(sent.qos1().user("priority", &level.to_string()));
        }
        world.crash(Crash::now(from));
        assert_eq!(taken(&world, "s"), expected, "{from} to {to} shards");
    }
}
