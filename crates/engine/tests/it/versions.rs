//! Stores of earlier versions, as files of this repository: their messages are delivered. A file is never written again;
//! a record of another layout gets a new file. `UPDATE_FIXTURES=1` writes missing files of this version.

use std::path::Path;

use tidegate_engine::{
    Durability, OrchestratorMoves, Partitions, Roster, RoutingPolicy, ShardId, ShardPosition, Snapshot, TenantId,
    describe, partition_of,
};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

/// Pairs of a store that an earlier version has written.
fn pairs_of(name: &str, write: impl FnOnce() -> Pairs) -> Pairs {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let line = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            format!("{} {} {}\n", hex(key), hex(value), describe(key, value).expect("a record of the engine"))
        };
        std::fs::write(&path, write().iter().map(line).collect::<Vec<_>>().concat()).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    let mut pairs = Pairs::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        let (key, value, words) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        assert_eq!(describe(&bytes(&key), &bytes(&value)), Some(words), "{name}");
        pairs.insert(bytes(&key), bytes(&value));
    }
    pairs
}

fn stored() -> World {
    World::with(1, |settings| settings.durability = Durability::Commit)
}

#[test]
fn packet_ids_of_qos_2_messages_taken_are_known() {
    let pairs = pairs_of("received-1.txt", || {
        let world = stored();
        world.absent_subscriber(v5("s").lasting(), "t", ExactlyOnce);
        let publisher = world.connect(v5("p").lasting().manual());
        publisher.open_exchange(message("t", "once").qos2().id(5));
        world.run();
        world.pairs()
    });
    for shards in [1, 3] {
        let world = stored();
        world.put_pairs(0, pairs.clone());
        world.crash(Crash::now(shards));
        let publisher = world.connect(v5("p").lasting().manual());
        publisher.open_exchange(message("t", "once").qos2().id(5).dup());
        publisher.end_exchange(id(5));
        assert_eq!(world.connect(v5("s").lasting()).payloads(), ["once"]);
    }
}

/// A cluster with a watcher of wills at its first node.
fn watched() -> (World, Client) {
    let world = World::cluster(3, 1, |settings| settings.durability = Durability::Commit);
    let watcher = world.connect(v5(&world.name_on(0, "watcher ")).lasting().accept_on(0));
    watcher.subscribe("wills/#", AtLeastOnce);
    (world, watcher)
}

#[test]
fn wills_under_way_to_other_nodes_are_published_once() {
    let pairs = pairs_of("outgoing-2.txt", || {
        let (world, _) = watched();
        let will = message("wills/ends", "gone").qos1();
        world.connect(v5(&world.name_on(1, "ends ")).accept_on(1).will(will));
        world.fall(1, usize::MAX, 0);
        world.break_link(1, 0, 0);
        world.break_link(1, 2, 0);
        world.revive(1);
        world.advance(seconds(1));
        world.pairs_of(1)
    });
    let (world, watcher) = watched();
    world.fall(1, 0, 0);
    world.run();
    world.put_pairs(1, pairs);
    world.revive(1);
    world.advance(seconds(5));
    watcher.expect_publish("wills/ends", "gone");
    world.advance(minutes(120));
    watcher.expect_nothing();
    assert_eq!(world.pairs_of(1).keys().filter(|key| key.first() == Some(&OUTGOING)).count(), 0, "it has arrived");
}

/// The first byte of the keys of wills under way to other nodes.
const OUTGOING: u8 = 0x2a;

fn orchestrator() -> (World, Broker) {
    let world = World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    });
    let broker = world.broker("a");
    (world, broker)
}

#[test]
fn an_orchestrator_knows_messages_and_debts_of_its_store() {
    let pairs = pairs_of("orchestrator-1.txt", || {
        let (world, broker) = orchestrator();
        let client = world.connect(v5("c").lasting());
        client.subscribe("t", ExactlyOnce);
        broker.carry(&brought(&broker, &world, KNOWN));
        client.expect_publish("t", "brought");
        client.lose();
        broker.now(|ways| ways.withholds_acknowledgements = true);
        let publisher = world.connect(v5("p"));
        publisher.publish_later(message("t", "owed").qos2());
        publisher.publish_later(message("kept", "value").qos1().retain());
        world.run();
        world.pairs()
    });
    for shards in [1, 2] {
        let (world, broker) = orchestrator();
        let [again, new] = [KNOWN, NEW].map(|id| brought(&broker, &world, id));
        world.put_pairs(0, pairs.clone());
        world.crash(Crash::now(shards));
        world.advance(seconds(5));
        let mut payloads = broker.payloads();
        payloads.sort();
        assert_eq!(payloads, ["owed", "value"], "what the broker had not acknowledged");
        let client = world.connect(v5("c").lasting());
        assert!(client.session_present());
        client.expect_publish("t", "owed");
        broker.carry(&again);
        client.expect_nothing();
        broker.carry(&new);
        client.expect_publish("t", "brought");
    }
}

/// The id of the message that the fixture knows, and another one.
const KNOWN: &str = "4wKhQWvg5_W000000000010OkFuMW07_UemKfbDvK-";
const NEW: &str = "4wKhQWvg5_W000000000990OkFuMW07_UemKfbDvK-";

/// A message that brokers bring, under this id.
fn brought(broker: &Broker, world: &World, id: &str) -> Carried {
    world.connect(v5("other")).publish(message("u", "brought").qos2());
    let mut carried = broker.taken().pop().expect("the message");
    "t".clone_into(&mut carried.topic);
    carried.user_properties = vec![("tidegate-id".to_owned(), id.to_owned())];
    carried
}

/// A table has all partitions at this orchestrator of a cluster.
fn serve_all(world: &World, shards: u16) {
    for shard in 0..shards {
        let roster = Roster::alone(ShardPosition { shard: ShardId(shard), shards }).with_values_only();
        world.engine(shard, |engine, now| engine.cluster().set_roster(now, roster));
    }
    world.run();
}

/// A store with a message that the group of a leaving partition has not got.
fn noted_for_a_group() -> Pairs {
    let (world, broker) = orchestrator();
    serve_all(&world, 1);
    world.absent_subscriber(v5("m").lasting(), "$share/g/t", ExactlyOnce);
    let group: Partitions = std::iter::once(partition_of(TenantId::DEFAULT, "g/t")).collect();
    world.engine(0, |engine, now| {
        engine.moves().hold_partitions(now, group, None);
        assert!(matches!(engine.moves().snapshot_partitions(now, group, u64::MAX), Ok(Snapshot::Taken(_))));
        OrchestratorMoves::of(engine).begin_forwarding(1, group);
    });
    broker.publish(&message("t", "noted").qos2());
    world.pairs()
}

#[test]
fn an_orchestrator_knows_the_groups_of_its_store() {
    let files = ["orchestrator-groups-1.txt", "orchestrator-groups-2.txt"];
    for (name, shards) in files.into_iter().flat_map(|name| [(name, 1), (name, 2)]) {
        let pairs = pairs_of(name, noted_for_a_group);
        assert!(pairs.keys().any(|key| key.first() == Some(&GROUP)));
        let (world, _) = orchestrator();
        world.put_pairs(0, pairs);
        world.crash(Crash::now(shards));
        serve_all(&world, shards);
        world.advance(minutes(1));
        assert_eq!(world.connect(v5("m").lasting()).payloads(), ["noted"], "{name}, {shards} shards");
    }
}

/// The first byte of the keys of names of shared groups.
const GROUP: u8 = 0x36;
