//! Retained values are set and removed while the orchestrator and brokers die: the last acknowledged change stays.

use std::collections::BTreeMap;

use tidegate_engine::{Durability, RoutingPolicy};
use tidegate_mqtt::QoS::{AtLeastOnce, ExactlyOnce};
use tidegate_mqtt::{QoS, ReasonCode};

use super::retained::kept;
use crate::harness::fleet::lasting;
use crate::harness::*;
use crate::simulation::seeds;

fn durable(shards: u16, seed: u64, policy: RoutingPolicy) -> World {
    World::seeded(shards, seed, &format!("removals, TIDEGATE_SEED={seed}"), |settings| {
        fleet_settings(settings, policy);
        settings.durability = Durability::Commit;
    })
}

/// The broker does not read the removal before the orchestrator dies. The next process sends it again.
#[test]
fn an_acknowledged_removal_reaches_its_broker_after_a_restart() {
    for (shards, qos) in [(1, AtLeastOnce), (1, ExactlyOnce), (3, AtLeastOnce), (3, ExactlyOnce)] {
        for is_old in [false, true] {
            let world = durable(shards, 1, RoutingPolicy::TopicHash);
            let broker = if is_old { world.old_broker("a") } else { world.broker("a") };
            let client = world.connect(v5("c"));
            assert_eq!(client.publish(message("t", "value").qos(qos).retain()), ReasonCode::Success);
            assert_eq!(broker.kept("t").as_deref(), Some("value"));
            broker.now(|ways| ways.hangs = true);
            assert_eq!(client.publish(message("t", "").qos(qos).retain()), ReasonCode::Success);
            // Only confirmed batches are in the store.
            world.crash(Crash { kept: 0, ..Crash::now(shards) });
            broker.now(|ways| ways.hangs = false);
            let reader = world.connect(v5("early"));
            reader.subscribe("t", ExactlyOnce);
            world.advance(seconds(20));
            reader.expect_nothing();
            assert_eq!(
                (kept(&world, "t"), broker.kept("t"), world.owed()),
                (None, None, 0),
                "{shards} {qos:?} {is_old}"
            );
        }
    }
}

/// Topics, and the QoS at which they are set and removed: each topic's changes come in their order.
const TOPICS: [(&str, QoS); 4] =
    [("r/1", AtLeastOnce), ("r/2", ExactlyOnce), ("r/3", AtLeastOnce), ("r/4", ExactlyOnce)];

/// Things that happen in one run.
const ACTIONS: usize = 250;

struct Run {
    seed: u64,
    world: World,
    random: Random,
    publisher: Device,
    brokers: Vec<Broker>,
    /// Whether brokers die, too.
    loses_brokers: bool,
    /// The last change of each topic, `None` where it is a removal.
    last: BTreeMap<&'static str, Option<String>>,
}

impl Run {
    fn new(seed: u64, loses_brokers: bool) -> Self {
        let mut random = Random::salted(seed, 29);
        let policy = if loses_brokers {
            random.pick(&[RoutingPolicy::TopicHash, RoutingPolicy::RoundRobin])
        } else {
            RoutingPolicy::TopicHash
        };
        let world = durable(random.pick(&[1, 2, 3]), seed, policy);
        let brokers = ["a", "b"].map(|name| world.broker_with(name, lasting(), Ways::default())).to_vec();
        let publisher = Device::new(&world, "publisher");
        Self { seed, world, random, publisher, brokers, loses_brokers, last: BTreeMap::new() }
    }

    fn play(mut self) {
        self.connect();
        for number in 0..ACTIONS {
            self.act(number);
        }
        self.calm_down();
        for (topic, last) in &self.last {
            let here = kept(&self.world, topic);
            assert_eq!(here, *last, "seed {}: {topic}", self.seed);
            // If topics change their broker, the former one may keep an older value.
            if !self.loses_brokers {
                let there = self.brokers.iter().find_map(|broker| broker.kept(topic));
                assert_eq!(there, *last, "seed {}: {topic} at brokers", self.seed);
            }
        }
    }

    fn act(&mut self, number: usize) {
        match self.random.below(100) {
            0..=34 => {
                let steps = 1 + self.random.below(12);
                self.world.run_some(steps);
            }
            35..=64 => self.change(number),
            65..=74 => {
                self.publisher.process();
                self.publisher.notice_close();
            }
            75..=79 if !self.publisher.online => self.connect(),
            80..=82 => {
                let survives = self.random.pick(&[0, 17, usize::MAX]);
                self.publisher.cut(survives);
            }
            83..=86 => {
                let milliseconds = self.random.pick(&[1, 50, 1000]);
                self.world.advance(milliseconds);
            }
            87..=89 => {
                let broker = self.any_broker();
                // Topics of a broker that hangs when the orchestrator starts go to another one.
                let (hangs, slow) = (self.loses_brokers && self.random.percent(50), self.random.percent(50));
                broker.with(|broker| {
                    if hangs {
                        broker.ways.hangs = slow;
                    } else {
                        broker.ways.withholds_acknowledgements = slow;
                    }
                    broker.go_on();
                });
            }
            90..=92 if self.loses_brokers => {
                let (broker, survives) = (self.any_broker(), self.random.pick(&[0, 40, usize::MAX]));
                self.world.kill_broker(broker.name(), survives);
            }
            93..=94 if self.loses_brokers => self.any_broker().with(|broker| broker.ways.reachable = true),
            95..=97 => self.crash(),
            98 => self.world.hold_commits(),
            _ => self.world.release_commits_later(),
        }
    }

    fn any_broker(&mut self) -> Broker {
        let number = self.random.below(self.brokers.len());
        self.brokers[number].clone()
    }

    fn connect(&mut self) {
        self.publisher.connect(v5("").clean(false).expiry(u32::MAX));
    }

    /// Sets a value, or removes it.
    fn change(&mut self, number: usize) {
        let (topic, qos) = self.random.pick(&TOPICS);
        let value = (!self.random.percent(40)).then(|| format!("value {number}"));
        self.publisher.publish(message(topic, value.clone().unwrap_or_default()).qos(qos).retain());
        self.last.insert(topic, value);
    }

    fn crash(&mut self) {
        let waiting = self.world.uncommitted();
        self.world.crash(Crash {
            kept: self.random.pick(&[0, waiting]),
            shards: self.random.pick(&[1, 2, 3]),
            away: self.random.pick(&[0, 1, 700]),
            stepped: 0,
            swept: self.random.percent(50),
        });
        self.publisher.notice_close();
    }

    /// Everything returns, until nothing is owed.
    fn calm_down(&mut self) {
        self.world.release_commits_later();
        for broker in &self.brokers {
            broker.now(|ways| *ways = Ways::default());
        }
        for _ in 0..200 {
            self.publisher.notice_close();
            if self.publisher.client().is_none() {
                self.connect();
            }
            self.world.advance(seconds(1));
            while self.publisher.process() {
                self.world.run();
            }
            if self.publisher.is_done() && self.publisher.online && self.world.owed() == 0 {
                return;
            }
        }
        panic!("seed {}: owed for ever: {:?}", self.seed, self.world.broker_links());
    }
}

#[test]
fn the_last_value_or_removal_outlives_orchestrators() {
    for seed in seeds() {
        Run::new(seed, false).play();
    }
}

#[test]
fn the_last_value_or_removal_outlives_brokers_too() {
    for seed in seeds() {
        Run::new(seed, true).play();
    }
}
