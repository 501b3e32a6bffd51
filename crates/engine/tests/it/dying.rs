//! Nodes that die at any step while shared groups deal to their members: an acknowledged message reaches a member.

use std::collections::BTreeMap;

use tidegate_engine::Durability;
use tidegate_mqtt::{QoS, ReasonCode, SubscriptionOptions};

use crate::harness::*;
use crate::simulation::seeds;

mod devices;
mod homes;
mod links;

/// Things that happen before the last node has died.
const ACTIONS: usize = 160;

struct Dying {
    seed: u64,
    world: World,
    random: Random,
    shards: u16,
    /// Whether sessions that last are in a store: what such a member has answered for is there when its node is dead.
    is_stored: bool,
    members: Vec<Device>,
    publishers: Vec<Device>,
    topics: Vec<String>,
    published: u64,
}

impl Dying {
    /// Clusters of three nodes with one shard each, or of two nodes with two; the first one stays and holds the groups.
    fn new(seed: u64) -> Self {
        let mut random = Random::salted(seed, 11);
        let (nodes, shards) = random.pick(&[(3, 1), (2, 2), (3, 1), (2, 1)]);
        let title = format!("dying, TIDEGATE_SEED={seed}, {nodes} nodes of {shards} shards");
        let (receive_maximum, high_water) = (random.pick(&[1, 3, 1000]), random.pick(&[100, 200_000]));
        let durability = random.pick(&[Durability::Memory, Durability::Commit]);
        let world = World::seeded_cluster(nodes, shards, seed, &title, |settings| {
            settings.durability = durability;
            settings.limits.max_inflight = receive_maximum;
            settings.limits.output_high_water = high_water;
        });
        let is_stored = durability != Durability::Memory;
        let topics: Vec<String> = (0..shards).map(|home| group_at(&world, home)).collect();
        let engines = nodes * shards;
        let device = |stem: &str, shard: u16| Device::new(&world, &world.name_on(shard, stem));
        let members = (0..engines * 2).map(|number| device(&format!("member {number} "), number % engines)).collect();
        let publishers = (0..shards).map(|shard| device("publisher ", shard)).collect();
        Self { seed, world, random, shards, is_stored, members, publishers, topics, published: 0 }
    }

    fn settle(&mut self) {
        let mut devices: Vec<_> = self.members.iter_mut().chain(&mut self.publishers).collect();
        settle(&self.world, &mut devices);
    }

    fn connect(&mut self, member: usize) {
        let steady = v5("").clean(false).expiry(u32::MAX).accept_on(0);
        self.members[member].connect(if member.is_multiple_of(2) && !self.is_stored {
            steady
        } else {
            v5("").clean(true).expiry(0).accept_on(0)
        });
    }

    fn subscribe(&mut self, member: usize) {
        for topic in self.topics.clone() {
            let filter = format!("$share/group/{topic}");
            self.members[member].subscribe(&filter, SubscriptionOptions::new(QoS::AtLeastOnce), None);
        }
    }

    fn play(mut self) {
        for publisher in &mut self.publishers {
            publisher.connect(v5("").clean(false).expiry(u32::MAX).accept_on(0));
        }
        for member in 0..self.members.len() {
            self.connect(member);
        }
        self.settle();
        for member in 0..self.members.len() {
            self.subscribe(member);
        }
        self.settle();
        let dies_at = self.random.below(ACTIONS);
        for action in 0..ACTIONS {
            if action == dies_at {
                // The last one: the others number as before.
                let node = usize::from(self.world.shards() / self.shards) - 1;
                self.world.kill_node(node, self.random.pick(&[0, 1, usize::MAX]));
            }
            self.act();
        }
        self.calm_down();
        self.check();
    }

    fn act(&mut self) {
        let member = self.random.below(self.members.len());
        match self.random.below(100) {
            0..=39 => {
                let steps = 1 + self.random.below(12);
                self.world.run_some(steps);
            }
            40..=69 => {
                let publisher = self.random.below(self.publishers.len());
                let topic = self.random.pick(&self.topics.iter().map(String::as_str).collect::<Vec<_>>()).to_owned();
                let payload = format!("{publisher}-{}", self.published);
                self.published += 1;
                self.publishers[publisher].publish(message(&topic, &payload).qos1());
            }
            70..=74 => self.members[member].habits.holds_acknowledgements = true,
            75..=79 => self.members[member].release(),
            80..=81 if self.members[member].online => self.members[member].cut(0),
            _ => {
                self.members[member].process();
                self.members[member].notice_close();
                self.publishers.iter_mut().for_each(|publisher| {
                    publisher.process();
                    publisher.notice_close();
                });
            }
        }
    }

    /// All clients return to living nodes and take all messages.
    fn calm_down(&mut self) {
        for _ in 0..20 {
            for publisher in &mut self.publishers {
                if publisher.client().is_none() {
                    publisher.connect(v5("").clean(false).expiry(u32::MAX).accept_on(0));
                }
            }
            for member in 0..self.members.len() {
                self.members[member].release();
                if self.members[member].client().is_none() {
                    self.connect(member);
                }
            }
            self.settle();
            for member in 0..self.members.len() {
                let forgotten = self.members[member].online && self.members[member].subscribed.is_empty();
                if forgotten {
                    self.subscribe(member);
                }
            }
            self.settle();
            self.world.advance(seconds(1));
        }
        self.world.advance(minutes(5));
        self.settle();
    }

    fn check(&self) {
        let mut got: BTreeMap<String, u32> = BTreeMap::new();
        for received in self.members.iter().flat_map(|member| &member.inbox) {
            *got.entry(received.message.text()).or_default() += 1;
        }
        let seed = self.seed;
        for publisher in &self.publishers {
            assert!(publisher.is_done(), "seed {seed}: {} waits for ever", publisher.name);
            for (payload, code) in &publisher.answers {
                let payload = String::from_utf8_lossy(payload);
                // A publisher that learns of no subscriber has no promise.
                let taken = *code == ReasonCode::Success;
                assert!(
                    !taken || got.contains_key(&*payload),
                    "seed {seed}: {payload} was taken ({code:?}) and is lost"
                );
            }
        }
        let counters = self.world.counters();
        assert_eq!((counters.deals_not_kept, self.world.gauges().kept_deals), (0, 0), "seed {seed}");
    }
}

/// A topic whose group `group` is dealt at a shard.
fn group_at(world: &World, home: u16) -> String {
    let names = (0..1000).map(|number| format!("t{number}"));
    names.into_iter().find(|name| world.home_of(&format!("group/{name}")) == home).expect("one of many names")
}

#[test]
fn a_group_message_reaches_a_member_if_any_node_dies() {
    for seed in seeds() {
        Dying::new(seed).play();
    }
}
