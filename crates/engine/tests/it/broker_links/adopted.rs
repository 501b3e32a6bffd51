//! Connections of a dead orchestrator to its brokers, which another one works off.

mod ids;

use tidegate_engine::{
    Behind, BrokerLinkError, BrokerLinkImage, BrokerLinkState, Brought, Continued, Durability, Engine,
    OrchestratorMoves, PartitionImage, Partitions, RoutingPolicy, Snapshot, TenantId, partition_of,
};
use tidegate_mqtt::QoS::ExactlyOnce;

use crate::harness::*;

fn world() -> World {
    World::with(1, |settings| fleet_settings(settings, RoutingPolicy::TopicHash))
}

#[test]
fn pending_messages_of_a_dead_orchestrator_reach_a_broker() {
    let dead = world();
    let broker = dead.broker("a");
    broker.now(|ways| ways.withholds_acknowledgements = true);
    dead.connect(v5("publisher")).publish(message("t", "1").qos1());
    assert_eq!(dead.owed(), 1);
    let images = dead.engine(0, |engine, now| OrchestratorMoves::of(engine).broker_link_images(now));
    let [image] = &images[..] else { panic!("one broker") };
    assert_eq!(image.broker, "a");

    let heir = world();
    let own = heir.broker("b");
    let left = heir.broker_unknown("a@dead", Ways::default());
    let name = heir.engine(0, |engine, now| {
        OrchestratorMoves::of(engine).adopt_broker_link(now, "dead", image, 1, fleet::lasting())
    });
    assert_eq!(name.as_deref(), Ok("a@dead"));
    heir.run();
    let report = left.report();
    assert_eq!((report.state, report.owed()), (BrokerLinkState::Drained, 0), "{report:?}");
    let taken = |broker: &Broker| broker.report().counters.acknowledged;
    assert_eq!(taken(&own) + taken(&left), 1, "one of the brokers has the owed message");
    let before = taken(&left);
    heir.connect(v5("publisher")).publish(message("t", "2").qos1());
    heir.run();
    assert_eq!((taken(&own) + taken(&left), taken(&left)), (2, before), "nothing else is given to it");
    let mut settling = heir.engine(0, |engine, now| OrchestratorMoves::of(engine).begin_settling_of(now, "a@dead"));
    heir.run();
    assert!(heir.engine(0, |engine, now| engine.fleet().settle(now, &mut settling)), "it has brought all that it had");
    heir.engine(0, |engine, now| engine.fleet().remove_broker_link(now, "a@dead", false)).expect("it owes nothing");
}

/// The connection of an orchestrator to broker `a`, which has not acknowledged one message.
fn image_with_a_pending_message() -> BrokerLinkImage {
    let dead = world();
    let broker = dead.broker("a");
    broker.now(|ways| ways.withholds_acknowledgements = true);
    dead.connect(v5("publisher")).publish(message("t", "1").qos1());
    let mut images = dead.engine(0, |engine, now| OrchestratorMoves::of(engine).broker_link_images(now));
    images.pop().expect("one broker")
}

#[test]
fn pending_messages_wait_for_a_broker_that_is_not_in_the_fleet() {
    for is_named in [true, false] {
        let mut image = image_with_a_pending_message();
        let heir = world();
        let own = heir.broker("b");
        heir.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).keep_broker_link(now, "dead", &image).expect("an image");
            engine.fleet().continue_adopted(now, Continued::Named(["a@dead".to_owned()].into()));
        });
        heir.advance(minutes(1));
        assert!(own.payloads().is_empty(), "they wait for broker `a`");
        if is_named {
            let left = heir.broker_unknown("a@dead", Ways::default());
            image.image = None;
            let adopted = heir.engine(0, |engine, now| {
                OrchestratorMoves::of(engine).adopt_broker_link(now, "dead", &image, 1, fleet::lasting())
            });
            assert_eq!(adopted.as_deref(), Ok("a@dead"));
            heir.run();
            assert_eq!([left.payloads(), own.payloads()].concat(), ["1"]);
        } else {
            heir.engine(0, |engine, now| engine.fleet().continue_adopted(now, Continued::None));
            heir.run();
            assert_eq!(own.payloads(), ["1"]);
        }
    }
}

#[test]
fn a_connection_of_a_dead_one_waits_for_an_own_broker() {
    let mut image = image_with_a_pending_message();
    let heir = world();
    let left = heir.broker_unknown("a@dead", Ways::default());
    let adopt = |image: &BrokerLinkImage| {
        heir.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).adopt_broker_link(now, "dead", image, 1, fleet::lasting())
        })
    };
    assert_eq!(adopt(&image), Err(BrokerLinkError::Last("a@dead".to_owned()).into()));
    assert_eq!(heir.broker_links(), [], "it is no broker for messages of clients");
    let own = heir.broker("b");
    image.image = None;
    assert_eq!(adopt(&image).as_deref(), Ok("a@dead"));
    heir.run();
    assert_eq!((left.report().state, heir.owed()), (BrokerLinkState::Drained, 0));
    assert_eq!([left.payloads(), own.payloads()].concat(), ["1"]);
}

const DEATH: u64 = 9;

fn partition(client: &str) -> Partitions {
    std::iter::once(partition_of(TenantId::DEFAULT, client)).collect()
}

/// An orchestrator that dies with the sessions of these clients, which have subscribed to "t".
fn dies(clients: &[&str]) -> (World, Vec<PartitionImage>) {
    let dead = world();
    dead.broker("a");
    for client in clients {
        dead.connect(v5(client).lasting()).subscribe("t", ExactlyOnce);
    }
    dead.run();
    let all = clients.iter().fold(Partitions::NONE, |all, client| all.with(partition(client)));
    let images = dead.engine(0, |engine, now| {
        engine.moves().hold_partitions(now, all, None);
        match engine.moves().snapshot_partitions(now, all, u64::MAX) {
            Ok(Snapshot::Taken(images)) => images,
            _ => panic!("all of it is in memory"),
        }
    });
    (dead, images)
}

/// Takes over the partition of a client, as each shard does.
fn inherit(heir: &World, shards: u16, client: &str, images: &[PartitionImage]) {
    inherit_by(heir, shards, client, images, DEATH);
}

fn inherit_by(heir: &World, shards: u16, client: &str, images: &[PartitionImage], transfer: u64) {
    let images: Vec<PartitionImage> =
        images.iter().filter(|image| partition(client).has(image.partition)).cloned().collect();
    // Its sessions had no message of a broker.
    let had = world().engine(0, |engine, _| OrchestratorMoves::of(engine).messages_of(partition(client)));
    for shard in (0..shards).rev() {
        heir.engine(shard, |engine, now| {
            engine.moves().arrive(now, &images).expect("images as they were given out");
            let begun = OrchestratorMoves::of(engine).begin_awaiting(now, transfer, partition(client), Some(&had));
            begun.expect("a list of no messages");
            engine.moves().release_partitions(now, partition(client));
        });
    }
    heir.run();
}

/// Connects to the broker "a" as the dead one, which has a session there with "t".
fn connect_as_dead(heir: &World, dead: &World) -> Broker {
    let left = heir.broker_unknown("a@dead", Ways::default());
    left.with(|broker| broker.keep_session("dead-a", "t"));
    let images = dead.engine(0, |engine, now| OrchestratorMoves::of(engine).broker_link_images(now));
    let adopted = heir.engine(0, |engine, now| {
        OrchestratorMoves::of(engine).adopt_broker_link(now, "dead", &images[0], DEATH, fleet::lasting())
    });
    assert_eq!(adopted.as_deref(), Ok("a@dead"));
    heir.run();
    left
}

/// Messages with the ids that an orchestrator has given them.
fn with_ids<const N: usize>(payloads: [&str; N]) -> [Carried; N] {
    let origin = world();
    let broker = origin.broker("a");
    let publisher = origin.connect(v5("publisher"));
    payloads.map(|payload| {
        publisher.publish(message("t", payload).qos2());
        broker.taken().pop().expect("the message")
    })
}

fn take_brought(heir: &World) -> Brought {
    heir.run();
    heir.engine(0, |engine, _| OrchestratorMoves::of(engine).take_brought("a@dead"))
}

#[test]
fn kept_messages_wait_until_all_heirs_have_them() {
    let (dead, images) = dies(&["one", "two"]);
    let (first, second) = (world(), world());
    for (heir, client) in [(&first, "one"), (&second, "two")] {
        heir.broker("b");
        inherit(heir, 1, client, &images);
    }
    let left = connect_as_dead(&first, &dead);
    assert!(left.held().contains(&"t".to_owned()));
    let [kept] = with_ids(["1"]);
    left.carry(&kept);
    let (one, two) = (first.connect(v5("one").lasting()), second.connect(v5("two").lasting()));
    one.expect_publish("t", "1");
    let brought = take_brought(&first);
    assert_eq!(brought.unanswered, 1);
    assert_eq!(left.with(|broker| broker.owes()), 1, "not before the other heir has it");
    let piece = brought.for_members.expect("the message");
    second
        .engine(0, |engine, now| {
            OrchestratorMoves::of(engine).take_piece(now, DEATH, partition("two"), &piece, Behind::Pieces)
        })
        .expect("a piece");
    two.expect_publish("t", "1");
    first.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_brought(now, "a@dead", brought.unanswered));
    first.run();
    assert_eq!((left.with(|broker| broker.owes()), take_brought(&first).for_members), (0, None));
}

#[test]
fn kept_messages_reach_sessions_whose_heir_has_died_too() {
    let (dead, images) = dies(&["one", "two"]);
    let heir = world();
    let own = heir.broker("b");
    inherit(&heir, 1, "one", &images);
    let left = connect_as_dead(&heir, &dead);
    let [first, second] = with_ids(["1", "2"]);
    left.carry(&first);
    heir.run();
    // The member that was to have the other session has died, and the messages at hand wait for it.
    inherit_by(&heir, 1, "two", &images, DEATH + 1);
    let broker_link = &dead.engine(0, |engine, now| OrchestratorMoves::of(engine).broker_link_images(now))[0];
    let adopted = heir.engine(0, |engine, now| {
        OrchestratorMoves::of(engine).adopt_broker_link(now, "dead", broker_link, DEATH + 1, fleet::lasting())
    });
    assert_eq!(adopted.as_deref(), Ok("a@dead"));
    left.carry(&second);
    own.carry(&second);
    let brought = take_brought(&heir);
    assert_eq!(brought.unanswered, 2);
    let piece = brought.for_members.expect("the messages");
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).deliver_brought(now, partition("two"), &piece))
        .expect("a piece");
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_brought(now, "a@dead", 2));
    heir.run();
    assert_eq!(left.with(|broker| broker.owes()), 0);
    for transfer in [DEATH, DEATH + 1] {
        heir.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).take_piece(now, transfer, Partitions::NONE, &[], Behind::Nothing)
        })
        .expect("an empty piece");
    }
    for client in ["one", "two"] {
        let client = heir.connect(v5(client).lasting());
        let mut got = [client.expect_message().text(), client.expect_message().text()];
        got.sort();
        assert_eq!(got, ["1", "2"]);
        client.expect_nothing();
    }
}

#[test]
fn kept_messages_come_once_though_an_heir_has_got_them() {
    let (dead, images) = dies(&["one", "two"]);
    let (first, second) = (world(), world());
    let [before, after, twice] = with_ids(["1", "2", "3"]);
    let own = second.broker("b");
    second.connect(v5("other").lasting()).subscribe("t", ExactlyOnce);
    own.carry(&before);
    for (heir, client) in [(&first, "one"), (&second, "two")] {
        inherit(heir, 1, client, &images);
    }
    first.broker("b");
    let left = connect_as_dead(&first, &dead);
    let two = second.connect(v5("two").lasting());
    own.carry(&after);
    for carried in [&before, &after, &twice] {
        left.carry(carried);
    }
    let piece = take_brought(&first).for_members.expect("the messages");
    let take = |piece: &[u8], behind| {
        second
            .engine(0, |engine, now| {
                OrchestratorMoves::of(engine).take_piece(now, DEATH, partition("two"), piece, behind)
            })
            .expect("a piece");
        second.run();
    };
    take(&piece, Behind::LatePieces);
    own.carry(&twice);
    take(&[], Behind::Nothing);
    for payload in ["1", "2", "3"] {
        two.expect_publish("t", payload);
    }
    two.expect_nothing();
}

#[test]
fn a_message_sent_again_reaches_inherited_sessions() {
    let (_, images) = dies(&["one"]);
    let heir = world();
    let own = heir.broker("b");
    let other = heir.connect(v5("other").lasting());
    other.subscribe("t", ExactlyOnce);
    let [carried] = with_ids(["1"]);
    own.carry(&carried);
    other.expect_publish("t", "1");
    inherit(&heir, 1, "one", &images);
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).end_awaiting(now, DEATH));
    // The broker that had kept it for the dead orchestrator has died as well, and its sender gives it to another one.
    own.carry(&carried);
    own.carry(&carried);
    let one = heir.connect(v5("one").lasting());
    one.expect_publish("t", "1");
    one.expect_nothing();
    other.expect_nothing();
}

#[test]
fn a_copy_does_not_overtake_messages_kept_back() {
    let (_, images) = dies(&["one"]);
    let heir = world();
    let own = heir.broker("b");
    inherit(&heir, 1, "one", &images);
    let [carried] = with_ids(["1"]);
    own.carry(&carried);
    own.carry(&carried);
    let one = heir.connect(v5("one").lasting());
    one.expect_nothing();
    let end = |engine: &mut Engine, now| {
        OrchestratorMoves::of(engine).take_piece(now, DEATH, partition("one"), &[], Behind::Nothing)
    };
    heir.engine(0, end).expect("an empty piece");
    one.expect_publish("t", "1");
    one.expect_nothing();
}

#[test]
fn a_copy_comes_once_to_partitions_that_were_here_before() {
    let world = world();
    let own = world.broker("b");
    let one = world.connect(v5("one").lasting());
    one.subscribe("t", ExactlyOnce);
    let [carried] = with_ids(["1"]);
    own.carry(&carried);
    one.expect_publish("t", "1");
    // A late piece of a dead home begins a transfer for partitions that have been here long.
    world.engine(0, |engine, now| OrchestratorMoves::of(engine).resume_awaiting(now, DEATH, partition("one")));
    own.carry(&carried);
    one.expect_nothing();
}

#[test]
fn kept_messages_reach_sessions_of_all_shards_once() {
    let clients: Vec<String> = (0..8).map(|number| format!("keeper-{number}")).collect();
    let names: Vec<&str> = clients.iter().map(String::as_str).collect();
    let (dead, images) = dies(&names);
    let heir = World::with(2, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let own = heir.broker("b");
    heir.connect(v5("other").lasting()).subscribe("t", ExactlyOnce);
    let [before, after] = with_ids(["1", "2"]);
    own.carry(&before);
    let all = names.iter().fold(Partitions::NONE, |all, client| all.with(partition(client)));
    for shard in [1, 0] {
        heir.engine(shard, |engine, now| {
            engine.moves().arrive(now, &images).expect("images as they were given out");
            OrchestratorMoves::of(engine).begin_awaiting(now, DEATH, all, None).expect("no messages");
            engine.moves().release_partitions(now, all);
        });
    }
    let left = connect_as_dead(&heir, &dead);
    left.carry(&before);
    left.carry(&after);
    let brought = take_brought(&heir);
    let rest = brought.for_shards.expect("what had come before");
    heir.engine(1, |engine, now| OrchestratorMoves::of(engine).deliver_forwarded(now, brought.partitions, &rest))
        .expect("messages");
    own.carry(&after);
    for client in names {
        let keeper = heir.connect(v5(client).lasting());
        let mut got = [keeper.expect_message().text(), keeper.expect_message().text()];
        got.sort();
        assert_eq!(got, ["1", "2"], "{client}");
        keeper.expect_nothing();
    }
}

#[test]
fn a_restart_keeps_connections_of_dead_orchestrators() {
    let dead = world();
    let broker = dead.broker("a");
    broker.now(|ways| ways.withholds_acknowledgements = true);
    dead.connect(v5("publisher")).publish(message("t", "1").qos1());
    let images = dead.engine(0, |engine, now| OrchestratorMoves::of(engine).broker_link_images(now));
    let heir = World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    });
    heir.broker_unknown("b", Ways::default());
    heir.broker_unknown("a@dead", Ways { reachable: false, ..Ways::default() });
    let name_brokers = || {
        heir.engine(0, |engine, now| engine.fleet().set_broker_link(now, "b", fleet::lasting()))
            .expect("an orchestrator");
        heir.engine(0, |engine, now| engine.fleet().forget_other_broker_links(now));
        heir.run();
    };
    let sessions = || {
        let images = heir.engine(0, |engine, now| OrchestratorMoves::of(engine).broker_link_images(now));
        images.into_iter().map(|image| image.broker).collect::<Vec<_>>()
    };
    name_brokers();
    heir.engine(0, |engine, now| {
        OrchestratorMoves::of(engine).adopt_broker_link(now, "dead", &images[0], 1, fleet::lasting()).map(drop)
    })
    .expect("an image");
    heir.run();
    heir.crash(Crash::now(1));
    assert!(sessions().contains(&"a@dead".to_owned()), "{:?}", sessions());
    heir.engine(0, |engine, now| engine.fleet().continue_adopted(now, Continued::All));
    name_brokers();
    assert!(sessions().contains(&"a@dead".to_owned()), "{:?}", sessions());
    let named = Continued::Named(["a@dead".to_owned()].into());
    heir.engine(0, |engine, now| engine.fleet().continue_adopted(now, named));
    assert!(sessions().contains(&"a@dead".to_owned()), "{:?}", sessions());
    heir.engine(0, |engine, now| engine.fleet().continue_adopted(now, Continued::Named([].into())));
    heir.run();
    assert_eq!(sessions(), ["b"], "other brokers get its pending messages");
}

#[test]
fn a_connection_stays_until_its_messages_are_forwarded() {
    const MOVE: u64 = 7;
    let (dead, _) = dies(&["one"]);
    let heir = world();
    let own = heir.broker("b");
    heir.connect(v5("leaves").lasting()).subscribe("t", ExactlyOnce);
    let left = connect_as_dead(&heir, &dead);
    heir.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE, partition("leaves")));
    let [carried] = with_ids(["1"]);
    left.carry(&carried);
    own.carry(&carried);
    let brought = take_brought(&heir);
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_brought(now, "a@dead", brought.unanswered));
    heir.run();
    let owed = || [&own, &left].map(|broker| broker.with(|broker| broker.owes()));
    assert_eq!(owed(), [0, 1], "after a restart the connection alone brings it");
    let remove = || heir.engine(0, |engine, now| engine.fleet().remove_broker_link(now, "a@dead", false));
    assert_eq!(remove(), Err(BrokerLinkError::Owes { name: "a@dead".to_owned(), owed: 1 }));
    heir.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_forwarded(now, MOVE, 1));
    heir.run();
    assert_eq!(owed(), [0, 0]);
    remove().expect("it owes nothing");
}
