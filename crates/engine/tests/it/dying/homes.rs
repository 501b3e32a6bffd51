//! Homes of shared groups that die, and others go on with their stores; homes that hand over their partitions, stop and
//! return with their stores; and homes whose links to others are lost and return.

use tidegate_mqtt::QoS;

use super::devices::Devices;
use crate::simulation::seeds;

/// Things that happen in one run.
const ACTIONS: usize = 160;

/// The outcome of the node with the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Dies,
    Leaves,
    IsCutOff,
}

struct Homes {
    outcome: Outcome,
    /// Whether the node is to hand over its partitions and to stop, and whether it has stopped.
    leaves: bool,
    has_stopped: bool,
    /// The node with the groups: the last one.
    node: usize,
    devices: Devices,
}

impl Homes {
    fn new(outcome: Outcome, seed: u64) -> Self {
        let sizes = [(3, 1), (2, 2), (3, 1), (2, 1)];
        let devices = Devices::new(&format!("{outcome:?}"), seed, 13, &sizes, |engines, shards| {
            (engines - shards..engines, 0..engines - shards)
        });
        Self { outcome, leaves: false, has_stopped: false, node: devices.nodes - 1, devices }
    }

    fn play(mut self) {
        self.devices.begin();
        let begins = self.devices.random.below(ACTIONS);
        let ends = begins + self.devices.random.below(40);
        for action in 0..ACTIONS {
            if action == begins {
                self.begin();
            }
            if action == ends {
                self.end();
            }
            self.act();
        }
        if ends >= ACTIONS {
            self.end();
        }
        while self.leaves {
            self.devices.settle();
            self.step_leave();
        }
        self.devices.calm_down();
        self.devices.check();
    }

    fn begin(&mut self) {
        let arrive = self.devices.random.pick(&[0, 1, usize::MAX]);
        match self.outcome {
            Outcome::Dies => self.devices.world.kill_awaited_node(self.node, arrive),
            Outcome::Leaves => {
                self.leaves = true;
                self.devices.world.begin_to_leave(self.node);
            }
            Outcome::IsCutOff => {
                let other = self.devices.random.below(self.node);
                self.devices.world.break_link(self.node, other, arrive);
            }
        }
    }

    fn end(&mut self) {
        match self.outcome {
            Outcome::Dies => self.devices.world.take_over(self.node),
            Outcome::Leaves => {}
            Outcome::IsCutOff => self.devices.world.mend_links(),
        }
    }

    /// The node takes a step on its way out, or returns with its store.
    fn step_leave(&mut self) {
        if self.has_stopped {
            self.leaves = false;
            return self.devices.world.revive(self.node);
        }
        let gives_kept = self.devices.random.percent(50);
        if self.devices.world.has_left(self.node, gives_kept) {
            self.has_stopped = true;
            self.devices.world.stop_node(self.node);
        } else {
            self.devices.world.step_move(&mut self.devices.random);
        }
    }

    fn act(&mut self) {
        let devices = &mut self.devices;
        let member = devices.random.below(devices.members.len());
        if self.leaves && devices.random.percent(if self.has_stopped { 5 } else { 30 }) {
            return self.step_leave();
        }
        match devices.random.below(100) {
            0..=39 => devices.run_some(),
            40..=64 => devices.publish(&[QoS::AtLeastOnce, QoS::ExactlyOnce]),
            65..=69 => devices.members[member].habits.holds_acknowledgements = true,
            70..=74 => devices.members[member].release(),
            75..=76 if devices.members[member].online => devices.members[member].cut(0),
            77..=79 => devices.connect_all(),
            _ => devices.process(member),
        }
    }
}

#[test]
fn a_group_message_reaches_its_members_if_its_home_dies() {
    for seed in seeds() {
        Homes::new(Outcome::Dies, seed).play();
    }
}

#[test]
fn a_group_message_comes_as_promised_if_its_home_leaves() {
    for seed in seeds() {
        Homes::new(Outcome::Leaves, seed).play();
    }
}

/// Seeds that have found something while links were lost: a shard that had stood in for the home dealt what had come
/// there before.
const FOUND_WHILE_CUT_OFF: [u64; 1] = [84];

#[test]
fn a_group_message_survives_broken_links_of_its_home() {
    let found = FOUND_WHILE_CUT_OFF.into_iter().filter(|_| std::env::var_os("TIDEGATE_SEED").is_none());
    for seed in found.chain(seeds()) {
        Homes::new(Outcome::IsCutOff, seed).play();
    }
}
