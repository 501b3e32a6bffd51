//! A log that takes no record for a while, as in an election of its servers, and nodes that are cut off before, within and
//! after that.

use super::{LEASE, NODES, World};

/// After this part of a lease without a record, time does not count against members.
const STANDSTILL: u64 = LEASE / 3;

/// The standstill of the group's log, or of all logs.
#[derive(Default)]
pub(super) struct Stall {
    pub(super) until: u64,
    of_all_logs: bool,
    /// When the group's log took the last record, and the time that does not count against members.
    record_at: u64,
    uncounted: u64,
    /// How often a node had its lease renewed after it had ended, and how often one was given up.
    pub(super) continued: usize,
    pub(super) lost: usize,
}

impl Stall {
    pub(super) fn count(&mut self, now: u64) {
        self.uncounted += u64::from(now > self.record_at + STANDSTILL);
    }

    /// The log of the group takes a record; returns the time that counts against members.
    pub(super) fn accept(&mut self, now: u64) -> u64 {
        self.record_at = now;
        now - self.uncounted
    }
}

impl World {
    /// Whether a node reads and writes the logs other than that of the group.
    pub(super) fn reaches_logs(&self, index: usize) -> bool {
        self.nodes[index].cut_until <= self.now && !(self.stall.of_all_logs && self.stall.until > self.now)
    }

    /// Lets the logs stand still, with one node cut off from some time before, in or after that on.
    fn stall_with_one_cut_off(&mut self, index: usize) {
        let length = LEASE / 2 + self.random.below(3 * LEASE);
        let stall_at = self.now + self.random.below(2 * LEASE);
        let cut_at = self.now + self.random.below(2 * LEASE + length);
        let cut_for = self.random.below(3 * LEASE);
        let end = (stall_at + length).max(cut_at + cut_for) + self.random.below(LEASE);
        self.stall.of_all_logs = self.random.below(2) == 0;
        while self.now < end {
            if self.now == stall_at {
                self.stall.until = stall_at + length;
            }
            if self.now == cut_at {
                self.nodes[index].cut_until = cut_at + cut_for;
            }
            self.tick();
        }
    }
}

/// Nodes that keep nothing on the bus acknowledge by their lease alone.
#[test]
fn a_node_cut_off_around_an_election_never_serves_beside_others() {
    let (mut continued, mut lost) = (0, 0);
    for seed in super::seeds(500..510) {
        let mut world = World::new(seed);
        world.nodes.iter_mut().for_each(|node| node.durable = seed % 2 == 0);
        world.accuses = seed % 3 == 0;
        (0..NODES).for_each(|index| world.start(index));
        world.run(20 * LEASE);
        for round in 0..16 {
            world.stall_with_one_cut_off(round % NODES);
        }
        (continued, lost) = (continued + world.stall.continued, lost + world.stall.lost);
        world.settle();
        assert_eq!(world.ended, 0, "seed {seed}: a node had to end its process");
    }
    assert!(continued > 0 && lost > 0, "{continued} continued, {lost} were given up");
}

/// No node can count up in that time, so none gives another one up.
#[test]
fn members_outlast_a_log_that_stands_still_for_leases() {
    for seed in super::seeds(600..604) {
        let mut world = super::durable(seed);
        (world.stall.until, world.stall.of_all_logs) = (world.now + 3 * LEASE, true);
        let tables = world.tables.len();
        world.run(5 * LEASE);
        assert_eq!((world.stall.continued, world.stall.lost), (NODES, 0), "seed {seed}");
        assert_eq!(world.tables.len(), tables, "seed {seed}: partitions stay");
        world.settle();
    }
}
