//! Orchestrators of two shards: the broker links are at the first, and a group is dealt at the second while its partition
//! moves.

use tidegate_engine::{
    Behind, Durability, OrchestratorMoves, PartitionImage, Partitions, Roster, RoutingPolicy, ShardId, ShardPosition,
    Snapshot, TenantId, partition_of,
};
use tidegate_mqtt::QoS::ExactlyOnce;

use crate::harness::*;

const SHARDS: [u16; 2] = [0, 1];

/// An orchestrator with a broker, and a member of a group that the second shard deals for.
struct Orchestrator {
    world: World,
    broker: Broker,
    name: String,
    member: Client,
    filter: String,
    /// The partition of the group, without sessions.
    group: Partitions,
}

fn roster(shard: u16) -> Roster {
    Roster::alone(ShardPosition { shard: ShardId(shard), shards: 2 }).with_values_only()
}

impl Orchestrator {
    fn new() -> Self {
        let world = World::with(2, |settings| {
            fleet_settings(settings, RoutingPolicy::TopicHash);
            settings.durability = Durability::Commit;
        });
        let broker = world.broker("a");
        let mut shares = (0..).map(|number| format!("g{number}"));
        let share = shares.find(|share| world.home_of(&format!("{share}/t")) == 1).expect("a share");
        let group: Partitions = std::iter::once(partition_of(TenantId::DEFAULT, &format!("{share}/t"))).collect();
        let mut names = (0..).map(|number| format!("member {number}"));
        let beside = |name: &String| !group.has(partition_of(TenantId::DEFAULT, name));
        let name = names.find(beside).expect("a name");
        let member = world.connect(v5(&name).lasting());
        let filter = format!("$share/{share}/t");
        let it = Self { world, broker, name, member, filter, group };
        it.serve(true);
        it.member.subscribe(&it.filter, ExactlyOnce);
        it
    }

    /// Whether a table has the partition of the group here.
    fn serve(&self, is_here: bool) {
        for shard in SHARDS {
            let mut roster = roster(shard);
            for partition in self.group.iter().filter(|_| !is_here) {
                roster = roster.with_stand_in(partition).with_absent(partition);
            }
            self.world.engine(shard, |engine, now| engine.cluster().set_roster(now, roster));
        }
        self.world.run();
    }

    /// A move of the group's partition begins.
    fn leave(&self, id: u64) -> Vec<PartitionImage> {
        let leave = |shard: u16| {
            self.world.engine(shard, |engine, now| {
                engine.moves().hold_partitions(now, self.group, None);
                let Ok(Snapshot::Taken(images)) = engine.moves().snapshot_partitions(now, self.group, u64::MAX) else {
                    panic!("all of it is in memory");
                };
                OrchestratorMoves::of(engine).begin_forwarding(id, self.group);
                images
            })
        };
        SHARDS.into_iter().flat_map(leave).collect()
    }

    /// The group's partition comes by a move.
    fn arrive(&self, id: u64, images: &[PartitionImage]) {
        for shard in SHARDS.into_iter().rev() {
            self.world.engine(shard, |engine, now| {
                engine.moves().arrive(now, images).expect("images as they were given out");
                OrchestratorMoves::of(engine).begin_awaiting(now, id, self.group, None).expect("no messages");
            });
        }
        self.world.run();
    }

    fn end_forwarding(&self, id: u64) {
        for shard in SHARDS {
            self.world.engine(shard, |engine, now| {
                OrchestratorMoves::of(engine).end_forwarding(now, id, self.group);
            });
        }
        self.release();
    }

    fn release(&self) {
        for shard in SHARDS {
            self.world.engine(shard, |engine, now| engine.moves().release_partitions(now, self.group));
        }
        self.world.run();
    }

    /// The messages collected for a move.
    fn forwarded(&self, id: u64) -> Vec<u8> {
        self.world.engine(0, |engine, _| {
            let mut moves = OrchestratorMoves::of(engine);
            moves.note_served_elsewhere(id);
            moves.take_forwarded(id).expect("messages").messages
        })
    }
}

#[test]
fn a_move_called_off_costs_no_message_of_a_group() {
    let it = Orchestrator::new();
    it.leave(1);
    it.broker.publish(&message("t", "x").qos2());
    it.member.expect_nothing();
    it.end_forwarding(1);
    it.member.expect_publish("t", "x");
    it.broker.publish(&message("t", "y").qos2());
    it.member.expect_publish("t", "y");
}

#[test]
fn a_restart_during_a_move_costs_no_message_of_a_group() {
    for shards in [1, 2] {
        let it = Orchestrator::new();
        it.leave(1);
        it.broker.publish(&message("t", "x").qos2());
        it.member.lose();
        it.world.crash(Crash::now(shards));
        for shard in 0..shards {
            let alone = Roster::alone(ShardPosition { shard: ShardId(shard), shards }).with_values_only();
            it.world.engine(shard, |engine, now| {
                OrchestratorMoves::of(engine).resume_forwarding(1, it.group);
                engine.cluster().set_roster(now, alone);
            });
        }
        it.world.advance(minutes(1));
        it.broker.publish(&message("t", "y").qos2());
        let member = it.world.connect(v5(&it.name).lasting().clean(false));
        assert_eq!(member.payloads(), ["x", "y"], "{shards} shards");
    }
}

#[test]
fn a_partition_that_returns_deals_while_its_first_move_is_open() {
    let it = Orchestrator::new();
    let images = it.leave(1);
    it.serve(false);
    it.world.engine(0, |engine, _| OrchestratorMoves::of(engine).note_served_elsewhere(1));
    it.arrive(2, &images);
    it.serve(true);
    it.release();
    it.broker.publish(&message("t", "x").qos2());
    it.member.expect_publish("t", "x");
}

#[test]
fn a_piece_that_comes_before_the_table_is_dealt() {
    let it = Orchestrator::new();
    let images = it.leave(1);
    it.serve(false);
    it.broker.publish(&message("t", "x").qos2());
    it.member.expect_nothing();
    let piece = it.forwarded(1);
    for shard in SHARDS {
        it.world.engine(shard, |engine, now| {
            engine.moves().forget_partitions(now, it.group);
            OrchestratorMoves::of(engine).end_forwarding(now, 1, it.group);
        });
    }
    it.arrive(2, &images);
    let rest = it.world.engine(0, |engine, now| {
        OrchestratorMoves::of(engine).take_piece(now, 2, it.group, &piece, Behind::Pieces).expect("a piece").1
    });
    it.world.engine(1, |engine, now| {
        OrchestratorMoves::of(engine).deliver_forwarded(now, it.group, &rest).expect("a piece");
    });
    it.world.run();
    it.serve(true);
    it.release();
    it.member.expect_publish("t", "x");
}
