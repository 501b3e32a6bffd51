//! Thousands of nodes over gateways on a virtual clock, with scores that waver: how often nodes are sent away at a
//! steady load, and how near all come to their ideal numbers. A failure names its seed.

use super::*;
use crate::messages::NodeLink;
use crate::ranking::{ConnectionsInverse, GatewayView, Ranking, WeightedResources};

/// A small generator, so that a seed gives the same run everywhere.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from -1 to 1 that is more often near 0.
    fn noise(&mut self) -> f64 {
        let mut one = || crate::real::real(self.next() % 2_001) / 1_000.0 - 1.0;
        (one() + one() + one()) / 3.0
    }
}

/// Gateways with nodes that follow each handover, within half a minute.
struct World {
    points: Points,
    chance: Chance,
    now: Duration,
    number: u64,
    /// The gateway of each node.
    at: Vec<usize>,
    gateways: usize,
    /// By how much processors and memory of a gateway waver, 0 to 1.
    noise: f64,
    handovers: u64,
}

const CYCLE: Duration = Duration::from_secs(10);

impl World {
    fn new(seed: u64, nodes: usize, gateways: usize, ranking: Box<dyn Ranking>, noise: f64) -> Self {
        let points = Points::new(PointsSettings::default(), ranking).unwrap();
        let chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self {
            points,
            chance,
            now: Duration::from_secs(86_400),
            number: 0,
            at: vec![0; nodes],
            gateways,
            noise,
            handovers: 0,
        }
    }

    fn count(&self, gateway: usize) -> u64 {
        self.at.iter().filter(|at| **at == gateway).count() as u64
    }

    /// One cycle: reports, decisions, and nodes that follow them.
    fn cycle(&mut self) -> u64 {
        self.now += CYCLE;
        self.number += 1;
        for gateway in 0..self.gateways {
            let share = crate::real::real(self.count(gateway)) / crate::real::real(self.at.len() as u64);
            let waver = 1.0 + self.noise * self.chance.noise();
            let report = LoadReport {
                gateway: format!("g{gateway}"),
                life: 1,
                number: self.number,
                period_ms: 10_000,
                cpu: (share * waver).clamp(0.0, 1.0),
                memory_total: 1_000,
                memory_available: crate::real::whole((1.0 - share * 0.5) * 1_000.0),
                ..LoadReport::default()
            };
            self.points.load(Some(self.now), report);
            let ids = self.at.iter().enumerate().filter(|(_, at)| **at == gateway);
            let nodes =
                ids.map(|(node, _)| NodeLink { id: node.to_string(), pong_us: None, transport_us: None }).collect();
            let report = ConnectionReport {
                gateway: format!("g{gateway}"),
                number: self.number,
                part: 0,
                parts: 1,
                pinged_at_ms: 0,
                window_ms: 0,
                pinged: 0,
                late: 0,
                nodes,
            };
            self.points.connected(self.now, report);
        }
        let mut sent = 0;
        for action in self.points.cycle(self.now, 0) {
            if let PointsAction::HandOver(handover) = action {
                sent += 1;
                self.at[handover.node.parse::<usize>().unwrap()] = handover.to[1..].parse().unwrap();
            }
        }
        self.handovers += sent;
        sent
    }

    /// Runs for so long; returns the handovers.
    fn run(&mut self, time: Duration) -> u64 {
        (0..time.as_secs() / CYCLE.as_secs()).map(|_| self.cycle()).sum()
    }

    /// The largest distance of a gateway from its ideal number, as a part of that.
    fn off(&mut self) -> f64 {
        self.cycle();
        let listed = self.points.listed.gateways.clone();
        let off = |gateway: &crate::messages::ListedGateway| {
            let nodes = self.count(gateway.name[1..].parse().unwrap());
            crate::real::real(nodes.abs_diff(gateway.ideal)) / crate::real::real(gateway.ideal.max(1))
        };
        listed.iter().map(off).fold(0.0, f64::max)
    }
}

/// Scores that waver by themselves.
struct Wavering<R>(R, std::sync::Mutex<Chance>, f64);

impl<R: Ranking> Ranking for Wavering<R> {
    fn score(&self, gateway: &GatewayView) -> f64 {
        self.0.score(gateway) * (1.0 + self.2 * self.1.lock().unwrap().noise())
    }
}

#[test]
fn a_steady_load_causes_no_handover_after_balancing() {
    for (seed, ranking) in
        [(1, Box::new(ConnectionsInverse) as Box<dyn Ranking>), (2, Box::new(WeightedResources::default()))]
    {
        let mut world = World::new(seed, 1_500, 3, ranking, 0.0);
        assert!(world.run(Duration::from_secs(1_800)) >= 900, "seed {seed}: all begin at one gateway");
        assert_eq!(world.run(Duration::from_secs(3_600)), 0, "seed {seed}");
        world.points.settings.list_period = Duration::ZERO;
        assert!(world.off() <= 0.02, "seed {seed}: {}", world.off());
    }
}

#[test]
fn wavering_scores_send_a_node_away_less_than_once_an_hour() {
    for seed in 1..=6 {
        let ranking: Box<dyn Ranking> = if seed % 2 == 0 {
            Box::new(Wavering(ConnectionsInverse, std::sync::Mutex::new(Chance(seed * 77 + 1)), 0.3))
        } else {
            Box::new(WeightedResources::default())
        };
        let mut world = World::new(seed, 1_200, 3, ranking, 0.5);
        world.run(Duration::from_secs(1_800));
        let churn = crate::real::real(world.run(Duration::from_secs(3_600))) / 1_200.0;
        println!("seed {seed}: {churn:.3} handovers per node and hour");
        assert!(churn < 1.0, "seed {seed}: {churn} handovers per node and hour");
    }
}

#[test]
fn fifteen_thousand_nodes_come_to_their_ideal_numbers() {
    let mut world = World::new(9, 15_000, 3, Box::new(ConnectionsInverse), 0.2);
    world.run(Duration::from_secs(600));
    world.points.settings.list_period = Duration::ZERO;
    let off = world.off();
    println!(
        "15,000 nodes over 3 gateways: {:?}, {:.2} % off at most, {} handovers",
        [0, 1, 2].map(|g| world.count(g)),
        off * 100.0,
        world.handovers
    );
    assert!(off <= 0.02, "{off}");
    assert!(world.handovers < 15_000, "no node moves more than once to get there");
}

#[test]
fn a_gateway_that_comes_and_one_that_goes_are_balanced() {
    let mut world = World::new(11, 900, 2, Box::new(ConnectionsInverse), 0.0);
    world.run(Duration::from_secs(1_800));
    world.gateways = 3;
    world.run(Duration::from_secs(1_800));
    let counts = [0, 1, 2].map(|gateway| world.count(gateway));
    assert!(counts.iter().all(|count| count.abs_diff(300) <= 6), "{counts:?}");
}
