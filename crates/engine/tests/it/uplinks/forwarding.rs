//! Messages of brokers for partitions that have moved from one orchestrator to another.

use tidegate_engine::{
    Behind, OrchestratorMoves, PartitionImage, Partitions, RoutingPolicy, Snapshot, TenantId, partition_of,
};
use tidegate_mqtt::QoS::AtLeastOnce;

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

impl World {
    /// The partition of a client leaves; what brokers bring for it is noted.
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

    /// Takes the collected messages, and forgets the partition.
    fn forget(&self, client: &str) -> Option<Vec<u8>> {
        self.run();
        let piece = self.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(MOVE));
        self.engine(0, |engine, now| {
            OrchestratorMoves::of(engine).end_forwarding(MOVE);
            engine.moves().forget_partitions(now, partitions_of(client));
        });
        piece
    }

    /// The partition comes, and is served.
    fn come(&self, client: &str, images: &[PartitionImage]) {
        self.engine(0, |engine, now| {
            engine.moves().arrive(now, images).expect("images as they were given out");
            OrchestratorMoves::of(engine).begin_awaiting(MOVE, partitions_of(client));
            engine.moves().release_partitions(now, partitions_of(client));
        });
        self.run();
    }

    fn take(&self, piece: &[u8], behind: Behind) {
        self.engine(0, |engine, now| OrchestratorMoves::of(engine).take_piece(now, MOVE, piece, behind))
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
        let take = || world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(MOVE));
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
        let piece =
            world.engine(0, |engine, _| OrchestratorMoves::of(engine).take_forwarded(MOVE + 1)).expect("a message");
        keeper.expect_nothing();
        world.take(&piece, Behind::Pieces);
        keeper.expect_publish("t", "1");
        world.take(&[], Behind::Nothing);
        keeper.expect_nothing();
    });
}
