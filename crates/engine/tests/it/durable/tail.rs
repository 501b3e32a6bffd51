//! Long queues, whose end is in the store alone.

use tidegate_engine::{Durability, Partitions, Reason, Snapshot};
use tidegate_mqtt::QoS::AtLeastOnce;

use super::*;

/// Bytes of a queue in memory: a few messages.
const SHARE: u64 = 2_000;

/// Publishes this number of messages to an offline client, and returns their payloads.
fn fill(world: &World, count: usize) -> Vec<String> {
    world.absent_subscriber(v5("a").lasting(), "t/#", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    let texts: Vec<String> = (0..count).map(|number| format!("message {number}")).collect();
    for text in &texts {
        publisher.publish(message("t/1", text).qos1());
    }
    texts
}

fn small(settings: &mut tidegate_engine::Settings) {
    settings.queue.memory_bytes = SHARE;
    settings.limits.max_inflight = 3;
}

#[test]
fn messages_beyond_the_share_wait_in_the_store_in_order() {
    for shards in [1, 2] {
        let world = stored_with(shards, small);
        let texts = fill(&world, 200);
        let gauges = world.gauges();
        assert_eq!(gauges.queued_messages + gauges.stored_messages, 200);
        assert!(gauges.queued_bytes <= SHARE && gauges.stored_messages > 150, "{gauges:?}");
        let client = world.connect(v5("a").lasting());
        let publisher = world.connect(v5("q"));
        publisher.publish(message("t/1", "last").qos1());
        let mut got = client.payloads();
        assert_eq!(got.pop().as_deref(), Some("last"));
        assert_eq!(got, texts);
        world.run();
        let gauges = world.gauges();
        assert_eq!((gauges.stored_messages, gauges.stored_bytes, gauges.queued_messages), (0, 0, 0));
    }
}

#[test]
fn a_tail_that_fits_into_memory_again_is_not_read() {
    for shards in [1, 2] {
        let world = stored_with(shards, |settings| {
            settings.queue.memory_bytes = 10 * SHARE;
            settings.limits.max_inflight = 3;
        });
        let mut texts = fill(&world, 400);
        assert!(world.gauges().stored_messages > 50);
        let client = world.connect(v5("a").lasting().manual());
        let publisher = world.connect(v5("q"));
        let mut got = Vec::new();
        let take = |got: &mut Vec<String>| {
            for next in client.messages_among_others() {
                client.puback(next.id.unwrap());
                got.push(next.text());
            }
        };
        // New messages come while a part is under way from the store.
        for number in 0..500 {
            texts.push(format!("new {number}"));
            publisher.send_publish(message("t/1", &texts[texts.len() - 1]).qos1());
            world.run_some(4);
            take(&mut got);
        }
        while got.len() < texts.len() {
            let before = got.len();
            world.run();
            take(&mut got);
            assert!(got.len() > before, "{before} of {} messages came", texts.len());
        }
        assert_eq!(got, texts);
        world.run();
        let gauges = world.gauges();
        assert_eq!((gauges.stored_messages, gauges.stored_bytes, gauges.queued_messages), (0, 0, 0));
        let read = world.read_from_store();
        assert!(read < 650, "{read} of {} messages were read", texts.len());
    }
}

/// The messages in flight fill the window, also where few messages of the queue are in memory.
#[test]
fn a_client_that_acknowledges_late_gets_its_whole_window() {
    for (shards, receive_maximum) in [(1, 150), (2, 150), (1, 1_000)] {
        let world = stored_with(shards, |settings| {
            settings.queue.memory_bytes = SHARE;
            settings.limits.max_inflight = 150;
        });
        let texts = fill(&world, 400);
        let client = world.connect(v5("a").lasting().manual().receive_maximum(receive_maximum));
        let mut got = Vec::new();
        while got.len() < texts.len() {
            world.run();
            let round = client.messages_among_others();
            assert_eq!(round.len(), (texts.len() - got.len()).min(150), "of Receive Maximum {receive_maximum}");
            for next in round {
                client.puback(next.id.unwrap());
                got.push(next.text());
            }
        }
        assert_eq!(got, texts);
    }
}

#[test]
fn a_restart_leaves_it_in_the_store_whatever_the_share_is_then() {
    let world = stored_with(1, small);
    let texts = fill(&world, 100);
    let before = owed(&world);
    for shards in [2, 1] {
        world.crash(Crash::now(shards));
        assert_eq!(owed(&world), before);
        assert!(world.gauges().stored_messages > 50 && world.gauges().queued_bytes <= SHARE);
    }
    let client = world.connect(v5("a").lasting());
    assert_eq!(client.payloads(), texts);
}

#[test]
fn a_client_that_reads_its_tail_has_one_will() {
    let world = stored_with(1, small);
    world.absent_subscriber(v5("watcher").lasting(), "w", AtLeastOnce);
    fill(&world, 100);
    // It resumes its session, which ends with this connection.
    let reader = v5("a").clean(false).manual().will(message("w", "gone").qos1());
    assert!(world.connect(reader).session_present());
    world.crash(Crash::now(1));
    let watcher = world.connect(v5("watcher").lasting());
    world.advance(seconds(5));
    assert_eq!(watcher.payloads(), ["gone"]);
}

#[test]
fn a_tail_counts_in_its_queue_and_ends_with_its_session() {
    let world = stored_with(1, |settings| {
        small(settings);
        settings.queue.max_messages = 50;
    });
    fill(&world, 60);
    assert_eq!(world.dropped(Reason::QueueFullNewest), 10);
    let again = world.connect(v5("a"));
    again.expect_nothing();
    assert_eq!(world.dropped(Reason::SessionDiscarded), 50);
    assert_eq!(world.gauges().stored_messages, 0);
    world.crash(Crash::now(1));
    assert_eq!(world.gauges().stored_messages + world.gauges().queued_messages, 0);
}

#[test]
fn a_stored_queue_has_bounds_of_its_own() {
    let world = stored_with(1, |settings| {
        small(settings);
        settings.queue.max_messages = 10;
        settings.queue.stored_max_messages = Some(150);
    });
    let texts = fill(&world, 160);
    assert_eq!(world.dropped(Reason::QueueFullNewest), 10);
    world.crash(Crash::now(1));
    let client = world.connect(v5("a").lasting());
    assert_eq!(client.payloads(), texts[..150]);
}

#[test]
fn what_cannot_leave_memory_keeps_to_its_bound_there() {
    let world = stored_with(1, |settings| {
        small(settings);
        settings.queue.max_bytes = 4 * SHARE;
        settings.queue.stored_max_bytes = Some(1 << 30);
        settings.queue.stored_max_messages = Some(u32::MAX);
        settings.queue.overflow = tidegate_engine::OverflowPolicy::DropOldest;
    });
    let client = world.connect(v5("a").lasting());
    client.subscribe("t/#", AtLeastOnce);
    client.subscribe("$share/g/s", AtLeastOnce);
    client.lose();
    let publisher = world.connect(v5("p"));
    for number in 0..200 {
        publisher.publish(message("t/1", format!("plain {number}")).qos1());
        publisher.publish(message("s", format!("of a group {number}")).qos1());
    }
    let gauges = world.gauges();
    assert!(gauges.queued_bytes <= 4 * SHARE, "{gauges:?}");
    assert!(gauges.stored_messages > 150, "what can leave memory is not dropped: {gauges:?}");
}

/// Clients that take their queues from the store and acknowledge nothing: messages in flight stay in memory.
#[test]
fn messages_in_flight_keep_to_the_ceiling() {
    let world = stored_with(1, |settings| {
        // Ten queues of half a megabyte are a quarter more.
        settings.limits.memory_ceiling = 4_000_000;
        settings.limits.max_inflight = u16::MAX;
        settings.queue.memory_bytes = SHARE;
        settings.queue.stored_max_bytes = Some(1 << 30);
        settings.queue.stored_max_messages = Some(u32::MAX);
    });
    let silent = |number: usize| v5(&format!("s{number}")).lasting().manual();
    for number in 0..10 {
        world.absent_subscriber(silent(number), "t", AtLeastOnce);
    }
    let publisher = world.connect(v5("p"));
    for _ in 0..50 {
        publisher.publish(message("t", vec![b'x'; 10_000]).qos1());
    }
    let clients: Vec<Client> = (0..10).map(|number| world.connect(silent(number))).collect();
    world.run();
    assert!((300..450).contains(&world.gauges().inflight_messages), "{}", world.gauges().inflight_messages);
    assert_eq!(world.refuses(0), None, "others are let in");
    for client in &clients {
        assert!(!client.messages().is_empty(), "each gets some");
    }
    world.crash(Crash::now(1));
    assert_eq!(world.refuses(0), None, "after a start, too");
}

#[test]
fn messages_of_groups_are_known_to_stay_in_memory() {
    let world = stored_with(1, small);
    let client = world.connect(v5("a").lasting());
    client.subscribe("t/#", AtLeastOnce);
    client.subscribe("$share/g/s", AtLeastOnce);
    client.lose();
    let publisher = world.connect(v5("p"));
    for topic in ["t/1", "s", "t/2", "s"] {
        publisher.publish(message(topic, "x").qos1());
    }
    let pairs = world.pairs_of(0);
    let staying = pairs.iter().filter(|(key, value)| tidegate_engine::stays_in_memory(key, value)).count();
    assert_eq!((staying, world.gauges().queued_messages), (2, 4));
}

#[test]
fn messages_in_memory_between_stored_ones_come_once() {
    let world = stored_with(1, small);
    let client = world.connect(v5("a").lasting());
    client.subscribe("t/#", AtLeastOnce);
    client.subscribe("$share/g/s", AtLeastOnce);
    client.lose();
    let publisher = world.connect(v5("p"));
    let mut texts = Vec::new();
    for number in 0..60 {
        // Messages of a group stay in memory, since another member may get them.
        let topic = if number % 3 == 2 { "s" } else { "t/1" };
        texts.push(format!("message {number:2}"));
        publisher.publish(message(topic, texts.last().unwrap()).qos1());
    }
    assert!(world.gauges().stored_messages > 20 && world.gauges().queued_messages > 20);
    let client = world.connect(v5("a").lasting());
    let mut got = client.payloads();
    got.sort();
    assert_eq!(got, texts);
    let gauges = world.gauges();
    assert_eq!((gauges.stored_messages, gauges.queued_messages, gauges.inflight_messages), (0, 0, 0));
}

#[test]
fn a_client_that_returns_for_the_last_time_gets_all_of_it() {
    let world = stored_with(1, small);
    let texts = fill(&world, 80);
    let client = world.connect(v5("a").clean(false));
    assert_eq!(client.payloads(), texts);
    client.disconnect();
    world.run();
    assert_eq!((world.gauges().sessions_disconnected, world.gauges().stored_messages), (0, 0));
    world.crash(Crash::now(1));
    assert_eq!(world.gauges().sessions_disconnected, 0);
}

#[test]
fn a_client_that_leaves_while_it_is_read_gets_all_of_it_later() {
    let world = stored_with(1, small);
    let texts = fill(&world, 80);
    let mut got = Vec::new();
    while got.len() < texts.len() {
        let client = world.connect(v5("a").lasting().manual());
        // An unacknowledged message comes again.
        if let Some(next) = client.messages_among_others().into_iter().next() {
            client.puback(next.id.unwrap());
            got.push(next.text());
        }
        world.run_some(3);
        client.lose();
    }
    assert_eq!(got, texts);
}

/// A read that comes before the commit shows nothing. Whenever the commit comes, the client gets its messages, although
/// nothing else happens at the store.
#[test]
fn a_tail_read_before_its_commit_is_read_after_it() {
    let mut empty = 0;
    for steps in 0..80 {
        let world = World::with(1, |settings| {
            small(settings);
            settings.durability = Durability::Relaxed;
        });
        world.absent_subscriber(v5("a").lasting(), "t/#", AtLeastOnce);
        world.run();
        world.hold_commits();
        let publisher = world.connect(v5("p"));
        let texts: Vec<String> = (0..60).map(|number| format!("message {number}")).collect();
        for text in &texts {
            publisher.publish(message("t/1", text).qos1());
        }
        assert!(world.gauges().stored_messages > 20);
        let again = v5("a").lasting();
        let mut client = world.open(&again);
        client.send_bytes(&again.encode());
        world.run_some(steps);
        empty += usize::from(world.awaited() > 0);
        world.release_commits();
        client.expect_accepted();
        assert_eq!(client.payloads(), texts, "after {steps} steps");
    }
    assert!(empty > 0, "no read waited for a commit");
}

#[test]
fn messages_in_flight_beyond_the_memory_are_read_again() {
    for (from, to) in RESTARTS {
        let world = stored_with(from, |settings| {
            settings.queue.memory_bytes = SHARE;
            settings.limits.max_inflight = 400;
        });
        let client = world.connect(v5("a").lasting().manual());
        client.subscribe("t/#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        let texts: Vec<String> = (0..300).map(|number| format!("{number:500}")).collect();
        for text in &texts {
            publisher.publish(message("t/1", text).qos1());
        }
        assert_eq!(client.payloads(), texts, "all of them are in flight");
        client.lose();
        for text in ["later", "last"] {
            publisher.publish(message("t/1", text).qos1());
        }
        let before = owed(&world);
        world.crash(Crash::now(to));
        assert_eq!(owed(&world), before);
        let client = world.connect(v5("a").lasting());
        let got: Vec<_> = client.messages().iter().map(|message| (message.dup, message.text())).collect();
        let sent = texts.into_iter().map(|text| (true, text));
        let expected: Vec<_> = sent.chain(["later", "last"].map(|text| (false, text.to_owned()))).collect();
        assert_eq!(got, expected);
    }
}

/// A world with a client whose queue is eight parts long in the store.
fn of_eight_parts() -> World {
    let world = stored_with(1, small);
    world.absent_subscriber(v5("a").lasting(), "t/#", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    for number in 0..40 {
        publisher.publish(message("t/1", format!("{number} {}", "x".repeat(50_000))).qos1());
    }
    world
}

fn snapshot(world: &World) -> Snapshot {
    world.engine(0, |engine, now| engine.moves().snapshot_partitions(now, Partitions::ALL, u64::MAX).unwrap())
}

/// A move looks at intervals whether the queue is in memory; eight parts of it are read in one of them.
#[test]
fn a_move_reads_a_long_queue_without_asking_for_each_part() {
    let world = of_eight_parts();
    world.engine(0, |engine, now| engine.moves().hold_partitions(now, Partitions::ALL, None));
    assert!(matches!(snapshot(&world), Snapshot::Loading));
    world.run();
    let Snapshot::Taken(images) = snapshot(&world) else { panic!("the queue is not in memory") };
    assert_eq!(images.iter().map(|image| image.owed.queued).sum::<u64>(), 40);
}

#[test]
fn a_move_that_is_called_off_reads_no_further_part() {
    let world = of_eight_parts();
    world.engine(0, |engine, now| {
        engine.moves().hold_partitions(now, Partitions::ALL, None);
        assert!(matches!(engine.moves().snapshot_partitions(now, Partitions::ALL, u64::MAX), Ok(Snapshot::Loading)));
        engine.moves().release_partitions(now, Partitions::ALL);
    });
    world.run();
    let read = world.read_from_store();
    assert!((1..=6).contains(&read), "{read} messages");
}

#[test]
fn copies_of_stored_messages_are_shed_at_the_ceiling() {
    let world = stored_with(1, |settings| {
        settings.limits.memory_ceiling = 1_000_000;
        settings.limits.max_inflight = 3;
        settings.queue.memory_bytes = 350_000;
        settings.queue.max_bytes = 1 << 30;
        settings.queue.max_messages = 10_000;
    });
    let reader = world.connect(v5("a").lasting().manual());
    reader.subscribe("t", AtLeastOnce);
    world.absent_subscriber(v5("b").lasting(), "$share/g/s", AtLeastOnce);
    let publisher = world.connect(v5("p"));
    let publish = |topic: &str, count: usize| {
        for _ in 0..count {
            publisher.publish(message(topic, "x".repeat(10_000)).qos1());
        }
    };
    publish("t", 60);
    for _ in 0..4 {
        for next in reader.messages_among_others() {
            reader.puback(next.id.unwrap());
        }
    }
    // Its queue is longer than half of its share, and nothing is read: the newest are in memory as well.
    publish("t", 20);
    assert!(world.read_from_store() == 0 && world.gauges().stored_messages > 20);
    publish("s", 100);
    assert!(world.dropped(Reason::MemoryCeiling) > 0);
    let gauges = world.gauges();
    assert!(gauges.queued_bytes > 900_000, "{gauges:?}");
}
