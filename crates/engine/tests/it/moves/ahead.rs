//! Long queues go to the store of the new home ahead of their sessions.

use tidegate_engine::{Durability, Owed, PartitionId, PriorityRule, PrioritySource, TenantId, partition_of};
use tidegate_mqtt::PacketId;
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

fn cluster() -> World {
    World::cluster(3, 1, |settings| {
        settings.durability = Durability::Commit;
        settings.queue.memory_bytes = 2_000;
        settings.limits.max_inflight = 3;
        settings.priority = vec![PriorityRule { filter: "t/#".into(), source: PrioritySource::Property, default: 0 }];
        settings.queue.lower_priority_share = 0;
    })
}

/// A client of node 0 that is away, and a publisher at node 2.
fn reader_and_publisher(world: &World) -> (Connecting, Client) {
    let reader = v5(&world.name_on(0, "reader ")).clean(false).expiry(u32::MAX);
    let client = world.connect(reader.clone());
    client.subscribe("t/#", AtLeastOnce);
    client.subscribe("$share/g/s", AtLeastOnce);
    client.lose();
    (reader, world.connect(v5(&world.name_on(2, "publisher "))))
}

/// Publishes messages with these numbers.
fn publish(publisher: &Client, numbers: std::ops::Range<usize>) -> Vec<String> {
    let texts: Vec<String> = numbers.map(|number| format!("message {number}")).collect();
    for text in &texts {
        publisher.publish(message("t/1", text).qos1());
    }
    texts
}

fn owed(world: &World, node: u16, reader: &Connecting) -> Owed {
    let PartitionId(partition) = partition_of(TenantId::DEFAULT, &reader.client_id);
    world.engine(node, |engine, _| engine.questions().owed(PartitionId(partition)))
}

/// Moves the reader from node 0 to node 1.
fn move_reader(world: &World, reader: &Connecting) {
    world.begin_move(0, 1, &reader.client_id);
    world.end_move();
    world.run();
}

#[test]
fn a_client_waits_no_longer_for_a_longer_queue() {
    let mut weights = Vec::new();
    for backlog in [100, 1_000] {
        let world = cluster();
        let (reader, publisher) = reader_and_publisher(&world);
        let mut texts = publish(&publisher, 0..backlog);
        assert!(world.gauges().stored_messages > 50);
        let ahead = world.send_ahead(0, 1, &reader.client_id);
        texts.extend(publish(&publisher, backlog..backlog + 5));
        let before = owed(&world, 0, &reader);
        assert_eq!(before.queued, texts.len() as u64);
        world.begin_move(0, 1, &reader.client_id);
        world.advance_move();
        assert!(ahead > backlog - 50);
        weights.push(world.weight_of_images());
        let read = world.read_from_store();
        world.end_move();
        world.run();
        assert_eq!((world.read_from_store(), owed(&world, 1, &reader)), (read, before));
        assert_eq!(owed(&world, 0, &reader), Owed::default());
        assert_eq!(world.connect(reader.accept_on(1)).payloads(), texts);
        world.run();
        let gauges = world.gauges();
        assert_eq!((gauges.stored_messages, gauges.stored_bytes, gauges.queued_messages), (0, 0, 0));
    }
    let [(short, few), (long, many)] = weights[..] else { panic!("two moves") };
    assert_eq!((few, many), (5, 5), "messages after the queue was sent");
    assert!(long < short + 50, "{short} and {long} bytes of images");
}

#[test]
fn a_client_that_reads_meanwhile_gets_each_message_once() {
    let world = cluster();
    let (reader, publisher) = reader_and_publisher(&world);
    let mut texts = publish(&publisher, 0..200);
    let client = world.connect(reader.clone().manual());
    let mut got = Vec::new();
    let mut take = |count: usize| {
        while got.len() < count {
            world.run();
            for next in client.messages() {
                client.puback(next.id.unwrap());
                got.push(next.text());
            }
        }
        got.clone()
    };
    take(10);
    world.send_ahead(0, 1, &reader.client_id);
    let before = take(120);
    texts.extend(publish(&publisher, 200..260));
    world.send_ahead(0, 1, &reader.client_id);
    let before = take(before.len() + 10);
    move_reader(&world, &reader);
    let client = world.connect(reader.accept_on(1));
    let mut all: Vec<String> = before;
    // Messages in flight come again.
    all.extend(client.payloads().into_iter().filter(|text| !all.contains(text)).collect::<Vec<_>>());
    assert_eq!(all, texts);
}

#[test]
fn messages_that_expire_meanwhile_do_not_come() {
    let world = cluster();
    let (reader, publisher) = reader_and_publisher(&world);
    let mut stays = publish(&publisher, 0..60);
    for number in 60..120 {
        let expires = if number % 20 == 0 { 30 } else { 2 };
        publisher.publish(message("t/1", format!("short {number}")).qos1().expiry(expires));
    }
    stays.extend(["short 60", "short 80", "short 100"].map(str::to_owned));
    stays.extend(publish(&publisher, 120..160));
    world.send_ahead(0, 1, &reader.client_id);
    world.advance(seconds(5));
    move_reader(&world, &reader);
    assert_eq!(owed(&world, 1, &reader).queued, stays.len() as u64);
    assert_eq!(world.connect(reader.accept_on(1)).payloads(), stays);
    assert_eq!(world.gauges().stored_messages, 0);
}

#[test]
fn messages_of_groups_between_them_come_once() {
    let world = cluster();
    let (reader, publisher) = reader_and_publisher(&world);
    let mut texts = Vec::new();
    for number in 0..90 {
        let topic = if number % 3 == 2 { "s" } else { "t/1" };
        texts.push(format!("message {number:2}"));
        publisher.publish(message(topic, texts.last().unwrap()).qos1());
        if number == 60 {
            world.send_ahead(0, 1, &reader.client_id);
        }
    }
    move_reader(&world, &reader);
    let mut got = world.connect(reader.accept_on(1)).payloads();
    got.sort();
    assert_eq!(got, texts);
    world.run();
    let gauges = world.gauges();
    assert_eq!((gauges.stored_messages, gauges.queued_messages, gauges.inflight_messages), (0, 0, 0));
}

/// Takes the messages that have come, the urgent one without its end. Returns its packet id, if it has come.
fn take_all_but(client: &Client, world: &World, got: &mut Vec<String>) -> Option<PacketId> {
    let mut open = None;
    world.run();
    for next in client.messages_among_others() {
        let id = next.id.unwrap();
        client.pubrec(id);
        world.run();
        if next.text() == "urgent" {
            open = Some(id);
        } else {
            client.pubcomp(id);
            world.run();
        }
        if !got.contains(&next.text()) {
            got.push(next.text());
        }
    }
    open
}

#[test]
fn an_acknowledged_message_within_a_queue_does_not_come_again() {
    let world = cluster();
    let reader = v5(&world.name_on(0, "reader ")).clean(false).expiry(u32::MAX);
    let client = world.connect(reader.clone().manual());
    client.subscribe("t/#", ExactlyOnce);
    let publisher = world.connect(v5(&world.name_on(2, "publisher ")));
    let publish = |numbers: std::ops::Range<usize>| {
        let texts: Vec<String> = numbers.map(|number| format!("message {number}")).collect();
        for text in &texts {
            publisher.publish(message("t/1", text).qos2());
        }
        texts
    };
    let mut texts = publish(0..100);
    publisher.publish(message("t/1", "urgent").qos2().user("priority", "5"));
    texts.extend(publish(100..200));
    let mut got = Vec::new();
    let open = (0..10).find_map(|_| take_all_but(&client, &world, &mut got)).expect("the urgent message first");
    assert!(got.len() < 20, "{got:?}");
    client.lose();
    assert!(world.send_ahead(0, 1, &reader.client_id) > 100);
    move_reader(&world, &reader);
    let client = world.connect(reader.accept_on(1).manual());
    while got.len() <= texts.len() {
        let before = got.len();
        assert_eq!(take_all_but(&client, &world, &mut got), None);
        assert!(got.len() > before || got.len() > texts.len(), "only {} messages have come", got.len());
    }
    client.pubcomp(open);
    world.run();
    got.retain(|text| text != "urgent");
    assert_eq!(got, texts);
    assert_eq!(client.messages_among_others().len(), 0);
    let gauges = world.gauges();
    assert_eq!((gauges.stored_messages, gauges.queued_messages, gauges.inflight_messages), (0, 0, 0));
}

#[test]
fn a_queue_moves_to_a_third_home() {
    let world = cluster();
    let (reader, publisher) = reader_and_publisher(&world);
    let mut texts = publish(&publisher, 0..100);
    move_reader(&world, &reader);
    texts.extend(publish(&publisher, 100..150));
    world.begin_move(1, 0, &reader.client_id);
    world.end_move();
    world.run();
    texts.extend(publish(&publisher, 150..160));
    assert_eq!(owed(&world, 0, &reader).queued, 160);
    assert_eq!(world.connect(reader.accept_on(0)).payloads(), texts);
}

#[test]
fn a_move_that_is_called_off_leaves_nothing_at_its_aim() {
    let world = cluster();
    let (reader, publisher) = reader_and_publisher(&world);
    let mut texts = publish(&publisher, 0..100);
    world.send_ahead(0, 1, &reader.client_id);
    world.begin_move(0, 1, &reader.client_id);
    world.advance_move();
    world.advance_move();
    world.call_off_move();
    world.read_all_tables();
    world.run();
    assert_eq!(owed(&world, 1, &reader), Owed::default());
    assert_eq!(world.gauges().stored_messages, owed(&world, 0, &reader).queued - world.gauges().queued_messages);
    texts.extend(publish(&publisher, 100..120));
    move_reader(&world, &reader);
    assert_eq!(world.connect(reader.accept_on(1)).payloads(), texts);
}

#[test]
fn a_restart_drops_queues_whose_sessions_did_not_come() {
    for arrives in [false, true] {
        let world = cluster();
        let (reader, publisher) = reader_and_publisher(&world);
        let texts = publish(&publisher, 0..100);
        let before = owed(&world, 0, &reader);
        if arrives {
            move_reader(&world, &reader);
        } else {
            world.send_ahead(0, 1, &reader.client_id);
            world.run();
        }
        world.kill_node(1, usize::MAX);
        world.revive(1);
        world.run();
        let home = u16::from(arrives);
        assert_eq!((owed(&world, home, &reader), owed(&world, 1 - home, &reader)), (before, Owed::default()));
        if !arrives {
            move_reader(&world, &reader);
        }
        assert_eq!(world.connect(reader.accept_on(1)).payloads(), texts);
    }
}
