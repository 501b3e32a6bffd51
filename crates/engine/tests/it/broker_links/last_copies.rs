//! A broker takes messages and does not bring them back: the old home of a session delivers them without a broker, and
//! forwards them. They are in its store until the new home has them.

use std::sync::Arc;

use tidegate_engine::{
    BrokerLinkImage, BrokerLinkOptions, Durability, Engine, OrchestratorMoves, Partitions, RoutingPolicy, Settings,
    ShardPosition, Snapshot, TenantId, partition_of,
};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use crate::harness::fleet::lasting;
use crate::harness::*;

const MOVE: u64 = 7;

fn keepers() -> Partitions {
    std::iter::once(partition_of(TenantId::DEFAULT, "keeper")).collect()
}

fn member(number: u64) -> World {
    World::seeded(1, number, &format!("member {number}"), |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    })
}

/// An old home whose broker refuses its filter, and messages of each QoS for a session that has left it.
fn old_home() -> World {
    let world = member(1);
    let keeper = world.connect(v5("keeper").lasting());
    keeper.subscribe("t", ExactlyOnce);
    world.broker_with("a", lasting(), Ways { refuses_filter: Some("t".to_owned()), ..Ways::default() });
    world.engine(0, |engine, now| {
        engine.moves().hold_partitions(now, keepers(), None);
        let taken = engine.moves().snapshot_partitions(now, keepers(), u64::MAX);
        assert!(matches!(taken, Ok(Snapshot::Taken(_))), "all of it is in memory");
        OrchestratorMoves::of(engine).begin_forwarding(MOVE, keepers());
    });
    world.run();
    let publisher = world.connect(v5("publisher"));
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        publisher.publish(message("t", format!("at {}", qos as u8)).qos(qos));
    }
    world.run();
    world
}

/// The payloads among forwarded bytes.
fn found(messages: &[u8]) -> Vec<String> {
    let is_there = |text: &&str| messages.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    ["at 0", "at 1", "at 2"].iter().filter(|text| is_there(text)).map(|text| (*text).to_owned()).collect()
}

fn crash(world: &World) {
    world.run();
    world.crash(Crash { kept: usize::MAX, shards: 1, away: 100, stepped: 0, swept: false });
    world.run();
}

/// The messages that an old home forwards, and how many of them wait for the new one.
fn forwarded(world: &World) -> (Vec<String>, usize) {
    world.run();
    let taken = world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(MOVE)).unwrap_or_default();
    (found(&taken.messages), taken.unanswered)
}

#[test]
fn a_restarted_old_home_forwards_what_no_broker_brings() {
    let world = old_home();
    assert_eq!(forwarded(&world), (vec!["at 0".to_owned(), "at 1".to_owned(), "at 2".to_owned()], 2));
    for _ in 0..2 {
        crash(&world);
        world.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE, keepers()));
        assert_eq!(forwarded(&world), (vec!["at 1".to_owned(), "at 2".to_owned()], 2));
    }
    world.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_forwarded(now, MOVE, 2));
    crash(&world);
    world.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE, keepers()));
    assert_eq!(forwarded(&world), (Vec::new(), 0), "the new home has them");
}

/// The image of a dead member's connection to a broker, read from its store, as `images_of` of the crate `node`
/// makes it.
fn image_of(world: &World, broker: &str) -> BrokerLinkImage {
    world.run();
    let (now, pairs) = (world.now(), world.swept());
    let settings: Settings = world.settings();
    let mut engine = Engine::new(Arc::new(settings), ShardPosition::ALONE, 0, now);
    restore(std::slice::from_mut(&mut engine), now, &pairs).expect("what engines wrote can be taken in");
    let mut images = OrchestratorMoves::of(&mut engine).broker_link_images(now).into_iter();
    let image = images.find(|image| image.broker == broker).expect("a connection to it");
    BrokerLinkImage { forwards: true, ..image }
}

/// A member connects with the session of the dead one. Returns the messages for partitions that had left.
fn brought(heir: &World, image: &BrokerLinkImage) -> Vec<String> {
    let options = BrokerLinkOptions { ..lasting() };
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).adopt_broker_link(now, "m1", image, MOVE, options))
        .expect("a broker of the fleet");
    heir.run();
    let brought = heir.engine(0, |engine, _| OrchestratorMoves::of(engine).take_brought("a@m1"));
    brought.for_left.as_deref().map(found).unwrap_or_default()
}

#[test]
fn heirs_forward_what_no_broker_brings() {
    let image = image_of(&old_home(), "a");
    let heir = member(2);
    heir.broker("a");
    heir.broker_unknown("a@m1", Ways::default());
    let both = ["at 1", "at 2"];
    assert_eq!(brought(&heir, &image), both);
    // It dies before it has forwarded them.
    crash(&heir);
    let again = BrokerLinkImage { image: None, last_copies: Vec::new(), ..image };
    assert_eq!(brought(&heir, &again), both);
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_brought(now, "a@m1", usize::MAX));
    crash(&heir);
    assert!(brought(&heir, &again).is_empty(), "the new homes have them");
}

#[test]
fn the_heir_of_an_heir_forwards_what_no_broker_brings() {
    let heir = member(2);
    heir.broker("a");
    heir.broker_unknown("a@m1", Ways::default());
    let both = ["at 1", "at 2"];
    assert_eq!(brought(&heir, &image_of(&old_home(), "a")), both);
    // It dies before it has forwarded them.
    assert!(image_of(&heir, "a").last_copies.is_empty(), "they are not its own");
    let image = BrokerLinkImage { broker: "a".to_owned(), ..image_of(&heir, "a@m1") };
    let second = member(3);
    second.broker("a");
    second.broker_unknown("a@m1", Ways::default());
    assert_eq!(brought(&second, &image), both);
}

#[test]
fn another_broker_gets_what_one_of_a_dead_member_keeps() {
    let dead = member(1);
    let broker = dead.broker("a");
    broker.now(|ways| ways.withholds_acknowledgements = true);
    let publisher = dead.connect(v5("publisher"));
    for qos in [AtLeastOnce, ExactlyOnce] {
        publisher.send_publish(message("t", format!("at {}", qos as u8)).qos(qos));
    }
    let image = BrokerLinkImage { forwards: false, ..image_of(&dead, "a") };
    let heir = member(2);
    let own = heir.broker("b");
    let reader = heir.connect(v5("reader").lasting());
    reader.subscribe("t", ExactlyOnce);
    let left = heir.broker_unknown("a@m1", Ways::default());
    // It has a session without the filter, so it brings nothing back.
    left.with(|broker| broker.keep_session("m1-a", "another"));
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).adopt_broker_link(now, "m1", &image, MOVE, lasting()))
        .expect("a broker of the fleet");
    heir.run();
    assert_eq!((left.payloads(), own.payloads()), (vec!["at 1".to_owned(), "at 2".to_owned()], Vec::new()));
    heir.advance(minutes(10));
    // Other members get them from this broker.
    assert_eq!(own.payloads(), ["at 1", "at 2"]);
    assert_eq!(reader.payloads(), ["at 1", "at 2"]);
    let brought = heir.engine(0, |engine, _| OrchestratorMoves::of(engine).take_brought("a@m1"));
    assert_eq!((brought.for_members, brought.unanswered), (None, 0));
}
