//! Nodes that have started wait for their brokers for a while, and get no partitions then.

use std::collections::BTreeSet;

use tidegate_cluster::{Seen, Table};

use super::{LEASE, NODES, PARTITIONS, World, seeds};

impl World {
    /// A process that begins has its brokers at once, or later.
    pub(super) fn wait_for_brokers(&mut self, index: usize) {
        if self.waits_within == 0 {
            return;
        }
        let longest = if self.random.below(2) == 0 { 1 } else { self.waits_within };
        self.nodes[index].waits_until = self.now + self.random.below(longest);
    }

    /// A node that waits gets partitions only where no other node takes them, and one waiting node then has all of these.
    pub(super) fn check_waiting(&self, before: &Table, next: &Table, seen: &Seen) {
        let node_of = |table: &Table, partition| table.home(partition).map(|home| home.node.clone());
        if (0..PARTITIONS).all(|partition| node_of(before, partition).is_none()) {
            return;
        }
        let says = |name: &String, waits: bool| {
            let life = next.lives.get(name);
            let advert = seen.adverts.get(name).filter(|advert| Some(&advert.life) == life);
            let is_member = seen.members.get(name).is_some_and(|member| Some(&member.life) == life);
            is_member && advert.is_some_and(|advert| !advert.leaving && advert.waits == waits)
        };
        let gained = (0..PARTITIONS).filter(|it| node_of(before, *it) != node_of(next, *it));
        let gained: BTreeSet<String> = gained.filter_map(|it| node_of(next, it)).collect();
        let waiting: Vec<&String> = gained.iter().filter(|name| says(name, true)).collect();
        let is_other = next.lives.keys().any(|name| says(name, false));
        assert!(waiting.is_empty() || !is_other, "seed {}: {waiting:?} wait, and others do not", self.seed);
        assert!(waiting.len() <= 1, "seed {}: {waiting:?} wait, and may wait for each other", self.seed);
    }
}

#[test]
fn one_node_at_most_gets_partitions_while_it_waits() {
    let mut has_waited = false;
    for seed in seeds(300..306) {
        let mut world = World::new(seed);
        world.waits_within = 3 * LEASE;
        for node in &mut world.nodes {
            node.durable = true;
        }
        for _ in 0..80 {
            world.disturb();
            let pause = world.random.below(LEASE);
            world.run(pause);
            has_waited |= (0..NODES).any(|index| world.nodes[index].waits_until > world.now);
        }
        world.settle();
    }
    assert!(has_waited);
}
