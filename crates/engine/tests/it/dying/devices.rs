//! A cluster with members of shared groups and their publishers, which act in an order from a seed.

use std::collections::BTreeMap;
use std::ops::Range;

use tidegate_engine::Durability;
use tidegate_mqtt::{QoS, SubscriptionOptions};

use super::group_at;
use crate::harness::*;

/// The engines with the homes of groups, and the engines with publishers.
pub(super) type Layout = fn(engines: u16, shards: u16) -> (Range<u16>, Range<u16>);

pub(super) struct Devices {
    pub(super) seed: u64,
    pub(super) world: World,
    pub(super) random: Random,
    pub(super) nodes: usize,
    pub(super) members: Vec<Device>,
    publishers: Vec<Device>,
    topics: Vec<String>,
    published: Vec<(String, QoS)>,
}

impl Devices {
    /// A cluster of one of these numbers of nodes, and of shards of each, with a member at each engine.
    pub(super) fn new(title: &str, seed: u64, salt: u64, sizes: &[(u16, u16)], layout: Layout) -> Self {
        let mut random = Random::salted(seed, salt);
        let (nodes, shards) = random.pick(sizes);
        let title = format!("{title}, TIDEGATE_SEED={seed}, {nodes} nodes of {shards} shards");
        let (receive_maximum, high_water) = (random.pick(&[1, 3, 1000]), random.pick(&[100, 200_000]));
        let world = World::seeded_cluster(nodes, shards, seed, &title, |settings| {
            settings.durability = Durability::Commit;
            settings.limits.max_inflight = receive_maximum;
            settings.limits.output_high_water = high_water;
        });
        let engines = nodes * shards;
        let (homes, places) = layout(engines, shards);
        let topics = homes.map(|home| group_at(&world, home)).collect();
        let device = |stem: &str, shard: u16| Device::new(&world, &world.name_on(shard, stem));
        let members = (0..engines).map(|number| device(&format!("member {number} "), number)).collect();
        let publishers = places.map(|shard| device("publisher ", shard)).collect();
        let nodes = usize::from(nodes);
        Self { seed, world, random, nodes, members, publishers, topics, published: Vec::new() }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Device> {
        self.members.iter_mut().chain(&mut self.publishers)
    }

    /// All connect, and all members join each group.
    pub(super) fn begin(&mut self) {
        self.connect_all();
        self.settle();
        for member in &mut self.members {
            for topic in &self.topics {
                let options = SubscriptionOptions::new(QoS::ExactlyOnce);
                member.subscribe(&format!("$share/group/{topic}"), options, None);
            }
        }
        self.settle();
    }

    pub(super) fn settle(&mut self) {
        let world = self.world.clone();
        settle(&world, &mut self.all().collect::<Vec<_>>());
    }

    pub(super) fn connect_all(&mut self) {
        for device in self.all() {
            if device.client().is_none() {
                device.connect(v5("").clean(false).expiry(u32::MAX).accept_on(0));
            }
        }
    }

    /// Some packets arrive.
    pub(super) fn run_some(&mut self) {
        let steps = 1 + self.random.below(12);
        self.world.run_some(steps);
    }

    /// A publisher sends a message to a group.
    pub(super) fn publish(&mut self, qos: &[QoS]) {
        let publisher = self.random.below(self.publishers.len());
        let topic = self.random.pick(&self.topics.iter().map(String::as_str).collect::<Vec<_>>()).to_owned();
        let payload = format!("{publisher}-{}", self.published.len());
        let qos = self.random.pick(qos);
        self.published.push((payload.clone(), qos));
        self.publishers[publisher].publish(message(&topic, &payload).qos(qos));
    }

    /// A member and all publishers read their packets.
    pub(super) fn process(&mut self, member: usize) {
        for device in std::iter::once(&mut self.members[member]).chain(&mut self.publishers) {
            device.process();
            device.notice_close();
        }
    }

    /// All connect and take their messages.
    pub(super) fn calm_down(&mut self) {
        self.world.read_all_tables();
        for _ in 0..30 {
            self.connect_all();
            self.members.iter_mut().for_each(Device::release);
            self.settle();
            self.world.advance(seconds(1));
        }
        self.world.advance(minutes(5));
        self.settle();
    }

    /// Each message has come to a member, at QoS 2 once.
    pub(super) fn check(&self) {
        let seed = self.seed;
        let mut got: BTreeMap<String, u32> = BTreeMap::new();
        for received in self.members.iter().flat_map(|member| &member.inbox) {
            *got.entry(received.message.text()).or_default() += 1;
        }
        for publisher in &self.publishers {
            assert!(publisher.is_done(), "seed {seed}: {} waits for ever", publisher.name);
        }
        for (payload, qos) in &self.published {
            let times = got.get(payload).copied().unwrap_or_default();
            let fits = if *qos == QoS::ExactlyOnce { times == 1 } else { times >= 1 };
            assert!(fits, "seed {seed}: {payload} at {qos:?} has come {times} times");
        }
        let gauges = self.world.gauges();
        assert_eq!((gauges.queued_messages, gauges.inflight_messages, gauges.kept_deals), (0, 0, 0), "seed {seed}");
    }
}
