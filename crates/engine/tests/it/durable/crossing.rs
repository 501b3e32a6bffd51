//! Messages that are between two shards when the process dies.

use tidegate_mqtt::PacketType;
use tidegate_mqtt::QoS::{self, AtLeastOnce, ExactlyOnce};

use super::*;

/// A publisher with a session and its packet id taken, and a message for a client on another shard; only the entering
/// shard's record is in the store.
fn taken(world: &World, topic: &str) -> Client {
    let publisher = world.connect(v311(&world.name_on(0, "p")).lasting().manual());
    world.hold_commits();
    publisher.publish_later(message(topic, "x").qos2().id(7));
    publisher.expect_nothing();
    publisher
}

/// Checks the state after a crash that has left this number of batches; also when the next process dies at once, with
/// any part of its own batches.
fn with_crashes(kept: usize, to: u16, before: impl Fn(&World), after: impl Fn(&World)) {
    for again in [None, Some(0), Some(1), Some(2), Some(3)] {
        let world = stored(3);
        before(&world);
        world.hold_commits();
        world.crash(Crash { kept, ..Crash::now(to) });
        if let Some(kept) = again {
            world.crash(Crash { kept, ..Crash::now(4 - to) });
        }
        world.release_commits();
        after(&world);
    }
}

fn owes_one(world: &World, name: &str) {
    let subscriber = world.connect(v5(name).lasting());
    assert_eq!(subscriber.payloads(), ["x"], "{name}");
}

#[test]
fn a_taken_qos_2_message_reaches_the_other_shards_once() {
    for kept in 1..=3 {
        for to in 1..=3 {
            with_crashes(
                kept,
                to,
                |world| {
                    for shard in 0..3 {
                        world.absent_subscriber(v5(&world.name_on(shard, "s")).lasting(), "t", ExactlyOnce);
                    }
                    taken(world, "t");
                    assert_eq!(world.uncommitted(), 4, "the publisher's, the others', and the place of the answer");
                },
                |world| {
                    let names = World::new(3);
                    let publisher = world.connect(v311(&names.name_on(0, "p")).lasting().manual());
                    publisher.publish_later(message("t", "x").qos2().id(7).dup());
                    publisher.expect(PacketType::PubRec);
                    for shard in 0..3 {
                        owes_one(world, &names.name_on(shard, "s"));
                    }
                },
            );
        }
    }
}

#[test]
fn a_taken_retained_qos_2_message_reaches_its_home() {
    let names = World::new(3);
    let topic = names.name_on(2, "t");
    for to in 1..=3 {
        with_crashes(
            1,
            to,
            |world| {
                let publisher = world.connect(v311(&names.name_on(0, "p")).lasting().manual());
                world.hold_commits();
                publisher.publish_later(message(&topic, "x").qos2().id(7).retain());
            },
            |world| {
                let reader = world.connect(v5("reader"));
                reader.subscribe(&topic, AtLeastOnce);
                assert_eq!(reader.payloads(), ["x"]);
            },
        );
    }
}

#[test]
fn a_deal_lost_between_shards_is_dealt_again() {
    let names = World::new(3);
    let home = |filter: &str| names.home_of(&format!("g/{filter}"));
    let topic = (0..10_000).map(|number| format!("t{number}")).find(|topic| home(topic) == 0).unwrap();
    let member = names.name_on(1, "m");
    for (qos, kept) in [(AtLeastOnce, 0), (ExactlyOnce, 0), (AtLeastOnce, 1), (ExactlyOnce, 1)] {
        for to in 1..=3 {
            with_crashes(
                kept,
                to,
                |world| {
                    world.absent_subscriber(v5(&member).lasting(), &format!("$share/g/{topic}"), ExactlyOnce);
                    let publisher = world.connect(v5(&names.name_on(0, "p")));
                    world.hold_commits();
                    publisher.publish_later(message(&topic, "x").qos(qos));
                    // It is acknowledged before anyone knows whether it has arrived.
                    world.commit(1);
                    assert!(!publisher.answers().is_empty());
                },
                |world| owes_one(world, &member),
            );
        }
    }
}

#[test]
fn a_message_returned_across_shards_is_not_lost() {
    let names = World::new(3);
    let topic =
        (0..10_000).map(|number| format!("t{number}")).find(|topic| names.home_of(&format!("g/{topic}")) == 0).unwrap();
    let filter = format!("$share/g/{topic}");
    let (leaves, stays) = (names.name_on(1, "m"), names.name_on(2, "m"));
    for kept in 1..=2 {
        for to in 1..=3 {
            with_crashes(
                kept,
                to,
                |world| {
                    world.absent_subscriber(v5(&leaves).lasting(), &filter, AtLeastOnce);
                    world.connect(v5("p")).publish(message(&topic, "x").qos1());
                    world.absent_subscriber(v5(&stays).lasting(), &filter, AtLeastOnce);
                    world.hold_commits();
                    world.try_connect(v5(&leaves));
                },
                |world| owes_one(world, &stays),
            );
        }
    }
}

#[test]
fn a_will_that_was_published_reaches_the_other_shards() {
    let names = World::new(3);
    for qos in [QoS::AtLeastOnce, ExactlyOnce] {
        for to in 1..=3 {
            let watcher = names.name_on(2, "watcher");
            with_crashes(
                1,
                to,
                |world| {
                    world.absent_subscriber(v5(&watcher).lasting(), "w", ExactlyOnce);
                    let will = message("w", "x").qos(qos);
                    let client = world.connect(v5(&names.name_on(0, "c")).lasting().will(will));
                    world.hold_commits();
                    client.lose();
                },
                |world| owes_one(world, &watcher),
            );
        }
    }
}

#[test]
fn local_and_repeatable_messages_write_no_crossing() {
    let world = stored(3);
    let subscriber = world.connect(v5(&world.name_on(1, "s")));
    subscriber.subscribe("t", ExactlyOnce);
    let publisher = world.connect(v5(&world.name_on(0, "p")));
    world.run();
    let before = world.pairs();
    world.hold_commits();
    for qos in [QoS::AtMostOnce, AtLeastOnce, ExactlyOnce] {
        publisher.publish(message("t", "x").qos(qos));
    }
    assert_eq!((world.uncommitted(), world.pairs()), (0, before));
    assert_eq!(subscriber.payloads().len(), 3);
}

#[test]
fn a_finished_crossing_leaves_no_record() {
    let world = stored(3);
    for shard in 0..3 {
        world.connect(v5(&world.name_on(shard, "s")).lasting()).subscribe("t", ExactlyOnce);
    }
    let publisher = world.connect(v311(&world.name_on(0, "p")).lasting());
    publisher.publish(message("t", "x").qos2());
    world.run();
    let texts = |world: &World| {
        let pairs = world.pairs();
        pairs.iter().filter_map(|(key, value)| tidegate_engine::describe(key, value)).collect::<Vec<_>>()
    };
    let crossing = |text: &String| text.contains("between shards") || text.contains("arrived at");
    assert!(!texts(&world).iter().any(crossing), "{:?}", texts(&world));
    world.hold_commits();
    publisher.publish_later(message("t", "y").qos2());
    world.crash(Crash { kept: 1, ..Crash::now(2) });
    assert!(texts(&world).iter().any(crossing), "{:?}", texts(&world));
    world.release_commits();
    assert!(!texts(&world).iter().any(crossing), "{:?}", texts(&world));
}
