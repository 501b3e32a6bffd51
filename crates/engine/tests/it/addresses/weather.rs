//! Mobile nodes under weather: connections break at any byte, nodes come and go, some start clean, partitions move from
//! node to node of a cluster, and processes die. A seed decides about everything; `TIDEGATE_SEED=17` plays only that
//! one.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::Durability;

use super::*;
use crate::simulation::seeds;

/// Mobile nodes; those with an odd number start clean, the others keep a session.
const NODES: usize = 4;
/// Things that happen in one run.
const ACTIONS: usize = 300;
/// Addresses, and who is behind them: each node, a group of the first two, and all.
const GROUP: &str = "ctx/to/group/pair";
const ALL: &str = "ctx/to/all/news";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Partitions of a cluster move.
    Moving,
    /// Partitions of a cluster of orchestrators move.
    Orchestrators,
    /// The process dies, and continues from its store.
    Crashing,
}

/// A message that was published.
struct Sent {
    topic: String,
    qos: QoS,
    /// Whether it may be gone before its nodes come.
    hurried: bool,
}

struct Weather {
    kind: Kind,
    seed: u64,
    world: World,
    random: Random,
    /// The mobile nodes, and behind them the sender.
    devices: Vec<Device>,
    sent: Vec<Sent>,
}

impl Weather {
    fn new(kind: Kind, seed: u64) -> Self {
        let mut random = Random::salted(seed, 5);
        let title = format!("{kind:?}, TIDEGATE_SEED={seed}");
        let (max_inflight, link) = (random.pick(&[1, 2, 1_000]), random.pick(&[200, 3_000, 1_000_000]));
        let change = |settings: &mut Settings| {
            open(settings);
            (settings.limits.max_inflight, settings.limits.shard_link_bytes) = (max_inflight, link);
            if kind == Kind::Crashing {
                settings.durability = Durability::Commit;
            }
        };
        let shards = random.pick(&[1, 2, 3]);
        let world = match kind {
            Kind::Moving => World::seeded_cluster(random.pick(&[2, 3]), shards.min(2), seed, &title, change),
            Kind::Orchestrators => {
                World::seeded_orchestrators(random.pick(&[2, 3]), shards.min(2), seed, &title, change)
            }
            Kind::Crashing => World::seeded(shards, seed, &title, change),
        };
        let name = |number: usize| world.name_on(number as u16 % world.shards(), &format!("n{number}-"));
        let devices = (0..=NODES).map(|number| Device::new(&world, &name(number))).collect();
        Self { kind, seed, world, random, devices, sent: Vec::new() }
    }

    fn play(mut self) {
        (0..=NODES).for_each(|device| self.connect(device));
        settle(&self.world, &mut self.devices);
        for device in 0..2 {
            let done = change(&self.world, &self.devices[device].name.clone(), &["pair"], &[]);
            assert_eq!(done, MembershipOutcome::Done);
        }
        for _ in 0..ACTIONS {
            self.act();
        }
        self.calm_down();
        self.check();
    }

    fn act(&mut self) {
        let device = self.random.below(NODES);
        match self.random.below(100) {
            0..=34 => self.world.run_some(1 + self.random.clone().below(12)),
            35..=54 => self.publish(),
            55..=62 => self.devices[device].cut(self.random.pick(&[0, 1, 5, 60, 400, usize::MAX])),
            63..=64 => self.devices[NODES].cut(self.random.pick(&[0, 5, 60, 400])),
            65..=74 => {
                let device = self.random.below(NODES + 1);
                if !self.devices[device].online {
                    self.connect(device);
                }
            }
            75..=77 => self.devices[device].habits.holds_acknowledgements = true,
            78..=79 => self.devices[device].release(),
            80 => self.world.skip(self.random.pick(&[1, 400, 1_500])),
            81..=84 => self.upheaval(),
            _ => {
                let device = self.random.below(NODES + 1);
                self.devices[device].process();
                self.devices[device].notice_close();
            }
        }
    }

    fn upheaval(&mut self) {
        if self.kind != Kind::Crashing {
            return self.world.step_move(&mut self.random);
        }
        if !self.random.percent(15) {
            return;
        }
        let kept = self.random.clone().below(self.world.uncommitted() + 1);
        let shards = self.random.pick(&[1, 2, 3]);
        self.world.crash(Crash { kept, shards, away: 0, stepped: 0, swept: self.random.percent(50) });
        for device in &mut self.devices {
            device.notice_close();
        }
    }

    fn connect(&mut self, device: usize) {
        let clean = device % 2 == 1;
        let (mut connecting, version) = match (clean, device % 3) {
            (true, 0) => (v311(""), 4),
            (true, _) => (v5(""), 5),
            (false, _) => (v5("").lasting(), 5),
        };
        if version == 5 {
            connecting = connecting.receive_maximum(self.random.pick(&[1, 3, 60_000]));
        }
        self.devices[device].connect(connecting);
    }

    fn publish(&mut self) {
        let topic = match self.random.below(NODES + 2) {
            NODES => GROUP.to_owned(),
            node if node > NODES => ALL.to_owned(),
            node => format!("ctx/to/node/{}/job", self.devices[node].name),
        };
        let qos = self.random.pick(&[AtMostOnce, AtLeastOnce, ExactlyOnce, ExactlyOnce]);
        let hurried = self.random.percent(15);
        let draft = message(&topic, self.sent.len().to_string()).qos(qos);
        self.sent.push(Sent { topic, qos, hurried });
        self.devices[NODES].publish(if hurried { draft.expiry(1) } else { draft });
    }

    /// The weather is over: everybody comes and acknowledges until nothing is owed.
    fn calm_down(&mut self) {
        if self.kind != Kind::Crashing {
            self.world.end_move();
        }
        for _ in 0..100 {
            for device in 0..=NODES {
                self.devices[device].release();
                self.devices[device].cut_abandoned();
                if self.devices[device].client().is_none() {
                    self.connect(device);
                }
            }
            settle_a_second(&self.world, &mut self.devices);
            if nothing_is_owed(&self.world, &self.devices) {
                return;
            }
        }
        panic!("{:?}, seed {}: something is owed for ever: {:?}", self.kind, self.seed, self.world.gauges());
    }

    fn is_for(&self, sent: &Sent, node: usize) -> bool {
        match &*sent.topic {
            GROUP => node < 2,
            ALL => true,
            topic => *topic == format!("ctx/to/node/{}/job", self.devices[node].name),
        }
    }

    fn check(&self) {
        let run = format!("{:?}, seed {}", self.kind, self.seed);
        let answers = &self.devices[NODES].answers;
        for node in 0..NODES {
            let name = &self.devices[node].name;
            let (mut times, mut last) = (BTreeMap::new(), BTreeMap::new());
            for got in self.devices[node].inbox.iter().map(|received| &received.message) {
                let number: usize = got.text().parse().unwrap();
                let sent = &self.sent[number];
                assert_eq!(sent.topic, got.topic, "{run}: {name}");
                assert!(self.is_for(sent, node), "{run}: {name} has got {number}, which was for {}", sent.topic);
                *times.entry(number).or_insert(0_u32) += 1;
                let before = last.entry((&sent.topic, sent.qos == AtMostOnce)).or_insert(number);
                let again = self.devices[NODES].resent.contains(got.text().as_bytes());
                assert!(
                    *before <= number || times[&number] > 1 || again,
                    "{run}: {name} has got {number} behind {before}"
                );
                *before = (*before).max(number);
            }
            for (number, sent) in self.sent.iter().enumerate().filter(|(_, sent)| self.is_for(sent, node)) {
                let times = times.get(&number).copied().unwrap_or(0);
                let answered = answers.get(number.to_string().as_bytes()).is_some_and(|code| !code.is_error());
                let owed = sent.qos != AtMostOnce && !sent.hurried && answered;
                assert!(times > 0 || !owed, "{run}: {name} never got {number} ({:?}, {})", sent.qos, sent.topic);
                // A node with a clean start may get its unacknowledged messages again.
                let lasts = node % 2 == 0;
                assert!(times < 2 || sent.qos != ExactlyOnce || !lasts, "{run}: {name} has got {number} {times} times");
            }
        }
        let reached: BTreeSet<usize> = (0..NODES).filter(|node| !self.devices[*node].inbox.is_empty()).collect();
        assert_eq!(reached.len(), NODES, "{run}: something is sent to everybody");
        assert!(self.kind == Kind::Crashing || self.world.moves() > 0, "{run}: nothing moves");
    }
}

#[test]
fn addressed_messages_arrive_whatever_moves_in_between() {
    for seed in seeds() {
        Weather::new(Kind::Moving, seed).play();
    }
}

#[test]
fn addressed_messages_follow_moves_between_orchestrators() {
    for seed in seeds() {
        Weather::new(Kind::Orchestrators, seed).play();
    }
}

#[test]
fn addressed_messages_arrive_despite_dead_nodes() {
    for seed in seeds() {
        Weather::new(Kind::Crashing, seed).play();
    }
}
