//! Worlds in which a story has to hold.

use tidegate_engine::{Durability, Settings};

use super::World;
use crate::harness::Random;
use crate::harness::net::Schedule;

/// Plays a story in a world of one shard, in one of three, in some of three in which everything that happens at once
/// happens in another order and is cut elsewhere, and in clusters.
pub(crate) fn everywhere(story: impl Fn(&World)) {
    everywhere_with(|_| {}, story);
}

/// The same with other settings than the default ones. Each place is played with a store as well, whose commits come as
/// late as they can or, with a seed, whenever they want.
pub(crate) fn everywhere_with(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    in_one_process_with(&change, &story);
    in_clusters(change, story);
}

/// The same for state that each node of a cluster has for itself.
pub(crate) fn in_one_process(story: impl Fn(&World)) {
    in_one_process_with(|_| {}, story);
}

/// The same with other settings than the default ones.
pub(crate) fn in_one_process_with(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    let stored = || Settings { durability: Durability::Commit, ..changed(&change) };
    story(&World::build(1, stored(), Schedule::InTurn, true, "1 shard in turn, with a store"));
    let schedule = Schedule::Seeded(Random::new(5));
    story(&World::build(3, stored(), schedule, false, "3 shards, seed 5, with a store"));
    in_one_process_in_memory(change, story);
}

/// The same without a store, for behaviour that exists only in memory.
pub(crate) fn everywhere_in_memory(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    in_one_process_in_memory(&change, &story);
    in_clusters(change, story);
}

/// In clusters of three nodes with a shard, and of two with two of them.
fn in_clusters(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    if changed(&change).broker_links.is_some() {
        // An orchestrator is no node of a cluster: a message that enters at one comes to the others by the brokers.
        return;
    }
    story(&World::cluster(3, 1, &change));
    for seed in 1..=2 {
        story(&World::seeded_cluster(2, 2, seed, &format!("2 nodes of 2 shards, seed {seed}"), &change));
    }
}

fn in_one_process_in_memory(change: impl Fn(&mut Settings), story: impl Fn(&World)) {
    let settings = || changed(&change);
    story(&World::build(1, settings(), Schedule::InTurn, true, "1 shard in turn"));
    story(&World::build(3, settings(), Schedule::InTurn, true, "3 shards in turn"));
    for seed in 1..=4 {
        let schedule = Schedule::Seeded(Random::new(seed));
        story(&World::build(3, settings(), schedule, seed % 2 == 0, &format!("3 shards, seed {seed}")));
    }
}

fn changed(change: impl Fn(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}
