//! Messages of brokers for partitions that have moved from one orchestrator to another.

use tidegate_engine::{
    Behind, Durability, OrchestratorMoves, PARTITIONS, PartitionId, PartitionImage, Partitions, Roster, RoutingPolicy,
    ShardPosition, Snapshot, TenantId, partition_of,
};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};

use crate::harness::*;

const MOVE: u64 = 7;

fn story(play: impl Fn(&World, Broker)) {
    let world = World::with(1, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let broker = world.broker("a");
    play(&world, broker);
}

fn partitions_of(client: &str) -> Partitions {
    std::iter::once(partition_of(TenantId::DEFAULT, client)).collect()
}

fn all() -> Partitions {
    (0..PARTITIONS).map(PartitionId).collect()
}

impl World {
    /// The partition of a client leaves; messages that brokers bring for it are noted.
    fn leave(&self, client: &str) -> Vec<PartitionImage> {
        let partitions = partitions_of(client);
        self.run();
        let images = self.engine(0, |engine, now| {
            engine.moves().hold_partitions(now, partitions, None);
            let Ok(Snapshot::Taken(images)) = engine.moves().snapshot_partitions(now, partitions, u64::MAX) else {
                panic!("all of it is in memory");
            };
            OrchestratorMoves::of(engine).begin_forwarding(MOVE, partitions);
            images
        });
        self.run();
        images
    }

    /// The messages collected since the last call; the brokers do not have their acknowledgements.
    fn take_forwarded(&self) -> Option<Vec<u8>> {
        self.run();
        self.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(MOVE)).map(|taken| taken.messages)
    }

    /// Takes the collected messages, and forgets the partition.
    fn forget(&self, client: &str) -> Option<Vec<u8>> {
        self.run();
        let piece = self.take_forwarded();
        self.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).end_forwarding(now, MOVE, partitions_of(client));
            engine.moves().forget_partitions(now, partitions_of(client));
        });
        piece
    }

    /// The partition comes, and is served.
    fn come(&self, client: &str, images: &[PartitionImage]) {
        self.engine(0, |engine, now| {
            engine.moves().arrive(now, images).expect("images as they were given out");
            OrchestratorMoves::of(engine).begin_awaiting(now, MOVE, partitions_of(client), None).expect("no messages");
            engine.moves().release_partitions(now, partitions_of(client));
        });
        self.run();
    }

    fn take(&self, piece: &[u8], behind: Behind) {
        self.engine(0, |engine, now| OrchestratorMoves::of(engine).take_piece(now, MOVE, all(), piece, behind))
            .expect("a piece");
        self.run();
    }
}

fn keeper() -> Connecting {
    v5("keeper").lasting()
}

#[test]
fn each_message_is_passed_on_once_and_copies_get_none() {
    story(|world, _| {
        let keeper = world.connect(keeper());
        keeper.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        world.leave("keeper");
        publisher.publish(message("t", "1").qos1());
        publisher.publish(message("other", "2").qos1());
        world.run();
        let take = || world.take_forwarded();
        assert!(take().is_some_and(|piece| piece.ends_with(b"1")), "the message");
        assert_eq!(take(), None, "nothing more has come");
        let owed =
            || world.engine(0, |engine, _| engine.questions().owed(partition_of(TenantId::DEFAULT, "keeper")).queued);
        assert_eq!(owed(), 1, "the move may be called off");
        world.engine(0, |engine, _| OrchestratorMoves::of(engine).note_served_elsewhere(MOVE));
        publisher.publish(message("t", "3").qos1());
        world.run();
        assert!(take().is_some_and(|piece| piece.ends_with(b"3")));
        assert_eq!(owed(), 1, "it is served elsewhere");
    });
}

#[test]
fn what_the_old_home_passes_on_comes_first() {
    story(|world, _| {
        let keeper = world.connect(self::keeper());
        keeper.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("publisher"));
        let images = world.leave("keeper");
        publisher.publish(message("t", "1").qos1());
        let piece = world.forget("keeper").expect("a message");
        world.come("keeper", &images);
        let keeper = world.connect(self::keeper());
        publisher.publish(message("t", "2").qos1());
        keeper.expect_nothing();
        world.take(&piece, Behind::Pieces);
        keeper.expect_publish("t", "1");
        keeper.expect_nothing();
        world.take(&[], Behind::Nothing);
        keeper.expect_publish("t", "2");
        publisher.publish(message("t", "3").qos1());
        keeper.expect_publish("t", "3");
        keeper.expect_nothing();
    });
}

#[test]
fn a_message_that_arrives_both_ways_is_delivered_once() {
    story(|world, _| {
        // A client that stays has the same subscription, so that its messages can be forwarded to the other one.
        for name in ["keeper", "stays"] {
            world.connect(v5(name).lasting()).subscribe("t", AtLeastOnce);
        }
        let publisher = world.connect(v5("publisher"));
        let images = world.leave("keeper");
        assert_eq!(world.forget("keeper"), None);
        world.come("keeper", &images);
        let keeper = world.connect(self::keeper());
        world.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE + 1, partitions_of("stays")));
        publisher.publish(message("t", "1").qos1());
        world.run();
        let taken = world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(MOVE + 1));
        let piece = taken.expect("a message").messages;
        keeper.expect_nothing();
        world.take(&piece, Behind::Pieces);
        keeper.expect_publish("t", "1");
        world.take(&[], Behind::Nothing);
        keeper.expect_nothing();
    });
}

/// Messages that an orchestrator has given to a broker.
fn with_ids<const N: usize>(payloads: [&str; N]) -> [Carried; N] {
    let origin = World::with(1, |settings| fleet_settings(settings, RoutingPolicy::TopicHash));
    let broker = origin.broker("a");
    let publisher = origin.connect(v5("publisher"));
    payloads.map(|payload| {
        publisher.publish(message("t", payload).qos2());
        broker.taken().pop().expect("the message")
    })
}

fn durable() -> (World, Broker) {
    let world = World::with(1, |settings| {
        fleet_settings(settings, RoutingPolicy::TopicHash);
        settings.durability = Durability::Commit;
    });
    let broker = world.broker("a");
    (world, broker)
}

#[test]
fn a_broker_gets_its_answer_when_the_new_home_has_the_message() {
    let (world, broker) = durable();
    world.connect(keeper()).subscribe("t", ExactlyOnce);
    world.leave("keeper");
    let [first, second] = with_ids(["1", "2"]);
    broker.carry(&first);
    broker.carry(&second);
    let owes = || {
        world.run();
        broker.with(|broker| broker.owes())
    };
    assert_eq!(owes(), 2);
    let taken = world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(MOVE)).expect("messages");
    assert_eq!((taken.unanswered, owes()), (2, 2));
    world.engine(0, |engine, now| OrchestratorMoves::of(engine).confirm_forwarded(now, MOVE, 1));
    assert_eq!(owes(), 1);
    world.engine(0, |engine, now| OrchestratorMoves::of(engine).end_forwarding(now, MOVE, partitions_of("keeper")));
    assert_eq!(owes(), 0, "nothing waits when the move has ended");
}

#[test]
fn messages_not_forwarded_before_a_crash_come_again() {
    let (world, broker) = durable();
    let clients = ["keeper", "stays"].map(|client| world.connect(v5(client).lasting()));
    for client in &clients {
        client.subscribe("t", ExactlyOnce);
    }
    let images = world.leave("keeper");
    world.engine(0, |engine, _| OrchestratorMoves::of(engine).note_served_elsewhere(MOVE));
    for carried in with_ids(["1", "2"]) {
        broker.carry(&carried);
    }
    clients[1].expect_publish("t", "1");
    clients[1].expect_publish("t", "2");
    world.crash(Crash::now(1));
    // As the new life of the old home does before it connects to its brokers.
    world.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE, partitions_of("keeper")));
    world.advance(5_000);
    let piece = world.take_forwarded().expect("the broker has sent them again");
    let (home, _) = durable();
    home.come("keeper", &images);
    home.take(&piece, Behind::Nothing);
    let keeper = home.connect(keeper());
    keeper.expect_publish("t", "1");
    keeper.expect_publish("t", "2");
    keeper.expect_nothing();
    world.connect(v5("stays").lasting()).expect_nothing();
}

#[test]
fn messages_kept_back_outlive_the_new_home() {
    let (old, _) = durable();
    old.connect(keeper()).subscribe("t", ExactlyOnce);
    let images = old.leave("keeper");
    let (home, broker) = durable();
    home.come("keeper", &images);
    let [first, second] = with_ids(["1", "2"]);
    broker.carry(&first);
    broker.carry(&second);
    home.run();
    assert_eq!(broker.with(|broker| broker.owes()), 0, "they are in the store");
    // The old home has forwarded one of them.
    old.engine(0, |engine, _| OrchestratorMoves::of(engine).note_served_elsewhere(MOVE));
    let own = old.broker("b");
    own.carry(&first);
    let piece = old.take_forwarded().expect("a message");
    home.take(&piece, Behind::Pieces);
    home.crash(Crash::now(1));
    let keeper = home.connect(keeper());
    keeper.expect_publish("t", "1");
    keeper.expect_publish("t", "2");
    keeper.expect_nothing();
    home.crash(Crash::now(1));
    home.connect(self::keeper()).expect_nothing();
}

#[test]
fn a_partition_that_returns_ends_its_own_forwarding_alone() {
    let (world, broker) = durable();
    for client in ["keeper", "stays"] {
        world.connect(v5(client).lasting()).subscribe("t", ExactlyOnce);
    }
    let both = partitions_of("keeper").with(partitions_of("stays"));
    world.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE, both));
    world.engine(0, |engine, now| OrchestratorMoves::of(engine).end_forwarding(now, MOVE, partitions_of("stays")));
    let [carried] = with_ids(["1"]);
    broker.carry(&carried);
    assert!(world.take_forwarded().is_some_and(|piece| piece.ends_with(b"1")));
    assert_eq!(broker.with(|broker| broker.owes()), 1);
}

/// An orchestrator with a broker, and a member of a group of another partition, which is given too.
fn with_group() -> (World, Broker, Client, Partitions) {
    let (world, broker) = durable();
    world.engine(0, |engine, now| {
        engine.cluster().set_roster(now, Roster::alone(ShardPosition::ALONE).with_values_only());
    });
    let member = world.connect(v5("member").lasting());
    member.subscribe("$share/g/t", ExactlyOnce);
    (world, broker, member, partitions_of("g/t"))
}

#[test]
fn a_group_that_has_a_message_is_dealt_none_by_an_ended_move() {
    let [carried] = with_ids(["1"]);
    let (old, brings, _, group) = with_group();
    old.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE, group));
    brings.carry(&carried);
    let piece = old.take_forwarded().expect("a message");
    let (home, broker, member, _) = with_group();
    assert!(!group.has(partition_of(TenantId::DEFAULT, "member")));
    home.engine(0, |engine, now| OrchestratorMoves::of(engine).begin_awaiting(now, MOVE, group, None))
        .expect("no messages");
    home.take(&piece, Behind::Nothing);
    member.expect_publish("t", "1");
    home.engine(0, |engine, _| OrchestratorMoves::of(engine).begin_forwarding(MOVE + 1, group));
    broker.carry(&carried);
    home.run();
    home.engine(0, |engine, now| OrchestratorMoves::of(engine).end_forwarding(now, MOVE + 1, group));
    home.run();
    member.expect_nothing();
}

#[test]
fn messages_kept_back_for_a_group_that_does_not_come_end() {
    let [carried] = with_ids(["1"]);
    let (home, broker, member, group) = with_group();
    home.engine(0, |engine, now| OrchestratorMoves::of(engine).begin_awaiting(now, MOVE, group, None))
        .expect("no messages");
    broker.carry(&carried);
    home.engine(0, |engine, now| engine.moves().forget_partitions(now, group));
    home.take(&[], Behind::Nothing);
    member.expect_nothing();
}

/// The new home has died, and this one, which has restarted, fetches the partition: it replaces the copy here.
#[test]
fn a_group_gives_nothing_to_a_copy_of_a_session_that_left() {
    let [carried] = with_ids(["1"]);
    let (world, broker, member, _) = with_group();
    member.disconnect();
    let images = world.leave("member");
    world.crash(Crash::now(1));
    let roster = || Roster::alone(ShardPosition::ALONE).with_values_only().with_moves(MOVE, &[]);
    let absent = roster().with_absent(partition_of(TenantId::DEFAULT, "member"));
    world.engine(0, |engine, now| {
        OrchestratorMoves::of(engine).resume_forwarding(MOVE, partitions_of("member"));
        engine.cluster().set_roster(now, absent);
    });
    world.run();
    broker.carry(&carried);
    world.run();
    assert_eq!(world.gauges().kept_deals, 1);
    world.come("member", &images);
    world.engine(0, |engine, now| engine.cluster().set_roster(now, roster()));
    world.run();
    world.connect(v5("member").lasting()).expect_publish("t", "1");
    assert_eq!(world.gauges().kept_deals, 0);
}

/// A group with two members. One of them had left and does not come back. `carried` came before the decision.
fn with_refused_member(carried: &[Carried]) -> (World, Broker, impl Fn() -> u64 + use<>) {
    let (world, broker, member, _) = with_group();
    world.connect(keeper()).subscribe("$share/g/t", ExactlyOnce);
    let images = world.leave("keeper");
    let its = partitions_of("keeper");
    world.engine(0, |engine, now| {
        engine.moves().arrive(now, &images).expect("images as they were given out");
        OrchestratorMoves::of(engine).begin_awaiting(now, MOVE + 1, its, None).expect("no messages");
        engine.moves().begin_coming(now, MOVE + 1, its);
    });
    member.disconnect();
    for carried in carried {
        broker.carry(carried);
    }
    world.run();
    let (here, partition) = (world.clone(), partition_of(TenantId::DEFAULT, "member"));
    let owed = move || here.engine(0, |engine, _| engine.questions().owed(partition).queued);
    let before = owed();
    assert!(before < carried.len() as u64 || carried.is_empty(), "another message is for the session that comes");
    world.engine(0, |engine, now| OrchestratorMoves::of(engine).refuse_arrival(now, its));
    (world, broker, owed)
}

#[test]
fn a_refused_member_gives_its_message_back_to_its_group() {
    let (_, _, owed) = with_refused_member(&with_ids(["1", "2"]));
    assert_eq!(owed(), 2);
}

#[test]
fn a_refused_member_is_dealt_no_message_of_its_group() {
    let (world, broker, owed) = with_refused_member(&[]);
    for carried in &with_ids(["1", "2", "3"]) {
        broker.carry(carried);
    }
    world.run();
    assert_eq!(owed(), 3, "its session here is a copy");
}
