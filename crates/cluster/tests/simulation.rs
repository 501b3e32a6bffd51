//! Nodes that die, return, stop for a while and are cut off, a bus that is late, and two leaders at once: seeded, over
//! the shipped code.
//!
//! What is checked is what clients would notice: whoever acknowledges something for a partition has all that was
//! acknowledged for it before, unless it was said that the partition begins anew.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_cluster::{
    Advert, Follower, Former, PARTITIONS, Seen, Sight, Sighting, Step, Table, Verdict, Watchdog, decide,
};

/// How long a tick is.
const TICK: Duration = Duration::from_millis(100);
const LEASE: u64 = 100;
const BEAT: u64 = 25;
/// Ticks between two looks of a node at what it serves.
const LOOK: u64 = 10;
const NODES: usize = 4;

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

type Content = BTreeMap<u16, Vec<u64>>;

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Node {
    name: String,
    alive: bool,
    /// The process stands still until then.
    stopped_until: u64,
    /// The bus cannot be reached until then.
    cut_until: u64,
    durable: bool,
    life: u64,
    after: Option<u64>,
    joined_at: u64,
    lease_until: u64,
    next_beat: u64,
    /// When it hears that its last beat was accepted, and when it asked for that.
    answer: Option<(u64, u64)>,
    /// Until when its shards have a lease, as far as they were told, and whether that has ended for them.
    shards_until: u64,
    shards_ended: bool,
    watchdog: Watchdog,
    next_look: u64,
    verdict: Verdict,
    follower: Follower,
    /// Tables that it has read, and the newest.
    read: usize,
    table: Table,
    /// What is there of partitions.
    content: Content,
    arrived: BTreeSet<u64>,
    leaving: bool,
    /// What it fetches of dead nodes, and what it has fetched.
    restoring: Vec<Restoring>,
    restored: BTreeMap<u16, u64>,
    /// Its claim to the log of tables, and how many tables there were before.
    claim: Option<(u64, usize)>,
    sightings: BTreeMap<String, (u64, u64)>,
}

/// A fetch of what dead nodes had, which takes its time.
struct Restoring {
    at: u64,
    partitions: Vec<u16>,
    former: Vec<Former>,
}

/// A message between two nodes, or one node's word, on its way.
struct Image {
    id: u64,
    to: usize,
    at: u64,
    content: Content,
}

struct World {
    random: Random,
    now: u64,
    nodes: Vec<Node>,
    lives: u64,
    /// The group: life and time of the last beat.
    group: BTreeMap<String, (u64, u64)>,
    tables: Vec<Table>,
    claims: u64,
    adverts: BTreeMap<String, Vec<(u64, Advert)>>,
    images: Vec<Image>,
    acknowledged: Vec<Vec<u64>>,
    began_anew: usize,
    written: u64,
    seed: u64,
    /// A fault: what has ended for shards stays so until the next table.
    latches: bool,
    /// How often a node has ended by itself, since it did not serve what it should.
    ended: usize,
}

fn watchdog() -> Watchdog {
    Watchdog::new(TICK * LEASE as u32)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Random(seed),
            now: 1,
            nodes: Vec::new(),
            lives: 0,
            group: BTreeMap::new(),
            tables: Vec::new(),
            claims: 0,
            adverts: BTreeMap::new(),
            images: Vec::new(),
            acknowledged: vec![Vec::new(); usize::from(PARTITIONS)],
            began_anew: 0,
            written: 0,
            seed,
            latches: false,
            ended: 0,
        };
        for index in 0..NODES {
            let name = format!("n{index}");
            let node = Node {
                follower: Follower::new(&name, 0, BTreeMap::new()),
                name,
                alive: false,
                stopped_until: 0,
                cut_until: 0,
                durable: index % 2 == 0,
                life: 0,
                after: None,
                joined_at: 0,
                lease_until: 0,
                next_beat: 0,
                answer: None,
                shards_until: 0,
                shards_ended: true,
                watchdog: watchdog(),
                next_look: 0,
                verdict: Verdict::default(),
                read: 0,
                table: Table::default(),
                content: Content::new(),
                arrived: BTreeSet::new(),
                leaving: false,
                restoring: Vec::new(),
                restored: BTreeMap::new(),
                claim: None,
                sightings: BTreeMap::new(),
            };
            world.nodes.push(node);
        }
        world
    }

    /// A process begins, or goes on as another life.
    fn begin_life(&mut self, index: usize, after: Option<u64>) {
        self.lives += 1;
        let (life, now) = (self.lives, self.now);
        let node = &mut self.nodes[index];
        let (remembered, arrivals) = (node.follower.holdings(), node.follower.arrivals());
        node.follower = Follower::new(&node.name, life, remembered).with_arrivals(arrivals);
        (node.life, node.after, node.joined_at, node.lease_until, node.next_beat) = (life, after, now, 0, now);
        (node.read, node.table, node.claim, node.answer) = (0, Table::default(), None, None);
        node.arrived.clear();
        node.restoring.clear();
        node.sightings.clear();
    }

    fn start(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let after = node.durable.then_some(node.life);
        if !node.durable {
            node.content.clear();
            node.restored.clear();
            node.follower = Follower::new(&node.name, 0, BTreeMap::new());
        }
        (node.alive, node.stopped_until, node.cut_until, node.leaving) = (true, 0, 0, false);
        (node.shards_until, node.shards_ended, node.watchdog) = (0, true, watchdog());
        self.begin_life(index, after);
    }

    fn tick(&mut self) {
        self.now += 1;
        for index in 0..NODES {
            let node = &self.nodes[index];
            if !node.alive || node.stopped_until > self.now {
                continue;
            }
            self.keep_lease(index);
            if self.nodes[index].cut_until <= self.now {
                self.beat(index);
                self.read(index);
                self.lead(index);
                self.advertise(index);
            }
            self.take_images(index);
            if self.nodes[index].cut_until <= self.now {
                self.restore(index);
            }
            self.serve(index);
            self.look(index);
        }
    }

    /// Shards look at the lease before anything else. What the bus has said meanwhile is heard before it is looked
    /// whether the membership was lost, or behind that.
    fn keep_lease(&mut self, index: usize) {
        let (now, hears_first) = (self.now, self.random.below(2) == 0);
        let node = &mut self.nodes[index];
        node.shards_ended |= node.shards_until <= now;
        if hears_first {
            self.hear(index);
        }
        let node = &self.nodes[index];
        if node.lease_until != 0 && node.lease_until <= now {
            let life = node.life;
            return self.begin_life(index, Some(life));
        }
        self.hear(index);
    }

    fn hear(&mut self, index: usize) {
        let (now, latches) = (self.now, self.latches);
        let node = &mut self.nodes[index];
        let Some((_, asked)) = node.answer.take_if(|(at, _)| *at <= now) else { return };
        node.lease_until = asked + LEASE;
        // Shards of which a table of this life is in force are told, and a lease that never ended goes on.
        if node.follower.is_member() && node.lease_until > now {
            node.shards_until = node.lease_until;
            node.shards_ended &= latches;
        }
    }

    /// Compares what a node should serve with what it serves. One that goes astray for too long is started again.
    fn look(&mut self, index: usize) {
        let now = self.now;
        let node = &mut self.nodes[index];
        if node.next_look > now {
            return;
        }
        node.next_look = now + LOOK;
        let serves = (0..PARTITIONS).filter(|it| !node.shards_ended && node.follower.serves(*it)).collect();
        let sight = Sight {
            name: &node.name,
            table: &node.table,
            has_lease: node.lease_until > now && node.follower.is_member(),
            is_fetching: !node.restoring.is_empty(),
            serves: Some(&serves),
        };
        node.verdict = node.watchdog.look(TICK * now as u32, &sight);
        if node.verdict.ends {
            self.ended += 1;
            self.start(index);
        }
    }

    /// Shows that a node lives, and buries those that do not.
    fn beat(&mut self, index: usize) {
        let now = self.now;
        if self.nodes[index].next_beat > now {
            return;
        }
        let node = &mut self.nodes[index];
        node.next_beat = now + BEAT;
        // It was asked for a little earlier than it is accepted, and heard of a little later.
        node.answer = Some((now + self.random.below(5), now - self.random.below(3).min(now)));
        self.group.retain(|_, (_, seen)| now.saturating_sub(*seen) < LEASE);
        self.group.insert(node.name.clone(), (node.life, now));
    }

    fn read(&mut self, index: usize) {
        if self.random.below(3) == 0 {
            return;
        }
        let Some(table) = self.tables.get(self.nodes[index].read).cloned() else { return };
        let node = &mut self.nodes[index];
        node.read += 1;
        // Of a log that keeps the latest, some are never seen.
        if self.random.below(4) == 0 && self.tables.len() > node.read {
            return;
        }
        let steps = node.follower.take(&table);
        node.restored = node.follower.fetched(&table);
        node.table = table;
        if node.follower.is_member() {
            (node.shards_until, node.shards_ended) = (node.lease_until, node.lease_until <= self.now);
        }
        for step in steps {
            self.carry_out(index, step);
        }
    }

    fn carry_out(&mut self, index: usize, step: Step) {
        let node = &mut self.nodes[index];
        match step {
            Step::Forget(partitions) => node.content.retain(|partition, _| !partitions.contains(partition)),
            Step::Send { id, partitions, to } => {
                let content = partitions.iter().map(|it| (*it, node.content.get(it).cloned().unwrap_or_default()));
                let content = content.collect();
                let to = self.nodes.iter().position(|node| node.name == to).unwrap();
                let at = self.now + self.random.below(LEASE);
                self.images.push(Image { id, to, at, content });
            }
            Step::Begin { partitions, lost } => {
                for partition in partitions {
                    assert!(node.content.insert(partition, Vec::new()).is_none(), "seed {}: not forgotten", self.seed);
                    self.began_anew += usize::from(lost);
                    self.acknowledged[usize::from(partition)].clear();
                }
            }
            Step::Restore { partitions, former } => {
                let at = self.now + self.random.below(2 * LEASE);
                node.restoring.push(Restoring { at, partitions, former });
            }
            Step::Expect { .. } | Step::Resume(_) | Step::TakeOver { .. } | Step::Keep(_) => {}
        }
    }

    /// Fetches what dead nodes had. One that keeps what it acknowledges on the bus has there what it remembers to have.
    fn restore(&mut self, index: usize) {
        let now = self.now;
        let due: Vec<Restoring> = self.nodes[index].restoring.extract_if(.., |it| it.at <= now).collect();
        for Restoring { partitions, former, .. } in due {
            for partition in partitions {
                let tidegate_cluster::Standing::Restoring { since, .. } =
                    self.nodes[index].follower.standing(partition)
                else {
                    continue;
                };
                let left = former.iter().find_map(|it| {
                    let node = self.nodes.iter().find(|node| node.name == it.node)?;
                    let is_there = node.follower.holdings().get(&partition) == Some(&it.since)
                        || it.by.is_some_and(|by| node.follower.arrivals().get(&partition) == Some(&by));
                    is_there.then(|| node.content.get(&partition).cloned().unwrap())
                });
                if left.is_none() {
                    self.began_anew += 1;
                    self.acknowledged[usize::from(partition)].clear();
                }
                let node = &mut self.nodes[index];
                node.content.insert(partition, left.unwrap_or_default());
                assert!(node.follower.restored(partition, since));
                node.restored = node.follower.fetched(&node.table);
            }
        }
    }

    fn take_images(&mut self, index: usize) {
        let (now, mut left) = (self.now, Vec::new());
        for image in std::mem::take(&mut self.images) {
            let node = &mut self.nodes[index];
            let expected = |partition: &u16| {
                node.follower.standing(*partition) == tidegate_cluster::Standing::Arriving { id: image.id }
            };
            if image.to == index && image.at <= now && image.content.keys().all(expected) {
                node.arrived.insert(image.id);
                node.follower.arrived(image.id);
                node.content.extend(image.content);
            } else {
                left.push(image);
            }
        }
        self.images = left;
    }

    /// Whoever thinks that it leads decides; the log takes what its newest owner appends.
    fn lead(&mut self, index: usize) {
        if self.now % 5 != index as u64 % 5 {
            return;
        }
        let leads = self.group.keys().next() == Some(&self.nodes[index].name) || self.random.below(200) == 0;
        if !leads {
            return;
        }
        if self.nodes[index].claim.is_none_or(|(claim, _)| claim != self.claims) {
            self.claims += 1;
            self.nodes[index].claim = Some((self.claims, self.tables.len()));
        }
        let now = self.now;
        for (name, (life, _)) in &self.group {
            let node = &mut self.nodes[index];
            if node.sightings.get(name).is_none_or(|(known, _)| known != life) {
                node.sightings.insert(name.clone(), (*life, now));
            }
        }
        let node = &self.nodes[index];
        let Some((_, before)) = node.claim else { return };
        if node.read < before.max(self.tables.len()) {
            return;
        }
        let since = |name: &String| node.sightings.get(name).map_or(now, |(_, since)| *since);
        let sighting = |(name, (life, _)): (&String, &(u64, u64))| {
            (name.clone(), Sighting { life: *life, settled: now - since(name) >= LEASE })
        };
        let seen = Seen {
            members: self.group.iter().map(sighting).collect(),
            adverts: self
                .adverts
                .iter()
                .filter_map(|(name, words)| {
                    Some((name.clone(), words.iter().rev().find(|(at, _)| *at <= now)?.1.clone()))
                })
                .collect(),
            may_bury: now - node.joined_at >= LEASE,
            may_move: true,
        };
        // The newest one may have been passed over by this reader; the leader decides on the newest there is.
        let newest = self.tables.last().cloned().unwrap_or_default();
        if let Some(next) = decide(&newest, &seen) {
            self.tables.push(next);
        }
    }

    fn advertise(&mut self, index: usize) {
        let node = &self.nodes[index];
        let advert = Advert {
            life: node.life,
            after: node.after,
            arrived: node.arrived.clone(),
            leaving: node.leaving,
            kept: node.durable,
            restored: node.restored.clone(),
            ..Advert::default()
        };
        let words = self.adverts.entry(node.name.clone()).or_default();
        if words.last().is_none_or(|(_, last)| *last != advert) {
            let at = words.last().map_or(0, |(at, _)| *at).max(self.now + self.random.below(20));
            words.push((at, advert));
        }
    }

    /// Acknowledges something for each partition that is served.
    fn serve(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.shards_ended {
            return;
        }
        for partition in (0..PARTITIONS).filter(|partition| node.follower.serves(*partition)) {
            let all = &mut self.acknowledged[usize::from(partition)];
            let own = node.content.get_mut(&partition);
            let own =
                own.unwrap_or_else(|| panic!("seed {}: {} serves {partition}, which it has not", self.seed, node.name));
            assert_eq!(
                own, all,
                "seed {}: {} serves {partition} without all that was acknowledged",
                self.seed, node.name
            );
            self.written += 1;
            own.push(self.written);
            all.push(self.written);
            // What was long ago says no more.
            if all.len() > 8 {
                own.drain(..4);
                all.drain(..4);
            }
        }
    }

    fn disturb(&mut self) {
        let index = self.random.below(NODES as u64) as usize;
        let until = self.now + self.random.below(3 * LEASE);
        // A process that stands still for about its lease wakes when others give it up, or are about to.
        let stop = if self.random.below(2) == 0 { self.now + LEASE - BEAT + self.random.below(BEAT) } else { until };
        let node = &mut self.nodes[index];
        match self.random.below(6) {
            0 if node.alive => node.alive = false,
            1 if node.alive => node.stopped_until = stop,
            2 if node.alive => node.cut_until = until,
            3 if node.alive => node.leaving = !node.leaving,
            _ if !node.alive => self.start(index),
            _ => {}
        }
    }

    fn run(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.tick();
        }
    }

    /// Everybody lives and reaches the bus: in the end all is served, evenly, and stays.
    fn settle(&mut self) {
        for index in 0..NODES {
            if !self.nodes[index].alive {
                self.start(index);
            }
            let node = &mut self.nodes[index];
            (node.stopped_until, node.cut_until, node.leaving) = (0, 0, false);
        }
        self.run(40 * LEASE);
        let tables = self.tables.len();
        self.run(5 * LEASE);
        assert_eq!(tables, self.tables.len(), "seed {}: a stable cluster changes its table", self.seed);
        for node in &mut self.nodes {
            assert_eq!(node.content.len(), usize::from(PARTITIONS) / NODES, "seed {}: {}", self.seed, node.name);
            let served = (0..PARTITIONS).filter(|partition| node.follower.serves(*partition)).count();
            assert_eq!(served, usize::from(PARTITIONS) / NODES, "seed {}: {}", self.seed, node.name);
            let state = (node.shards_ended, node.verdict);
            assert_eq!(state, (false, Verdict::default()), "seed {}: {} serves nobody", self.seed, node.name);
        }
    }
}

#[test]
fn nobody_acknowledges_what_it_does_not_have_and_in_the_end_all_is_served() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.disturb();
            let pause = world.random.below(LEASE);
            world.run(pause);
        }
        world.settle();
        assert_eq!(world.ended, 0, "seed {seed}: a node had to end by itself");
    }
}

/// Stops of about a lease, and nothing else: whoever wakes serves again, without having to end.
#[test]
fn nodes_that_stand_still_for_about_their_lease_serve_again() {
    let mut ended = 0;
    for (seed, latches) in (0..12).map(|seed| (seed, seed % 2 == 1)) {
        let mut world = World::new(seed);
        world.nodes.iter_mut().for_each(|node| node.durable = true);
        world.latches = latches;
        (0..NODES).for_each(|index| world.start(index));
        world.run(20 * LEASE);
        for round in 0..20 {
            let stop = LEASE - BEAT + world.random.below(BEAT);
            world.nodes[round % NODES].stopped_until = world.now + stop;
            let pause = world.random.below(2 * LEASE);
            world.run(stop + pause);
        }
        world.settle();
        assert!(latches || world.ended == 0, "seed {seed}: a node had to end by itself");
        ended += world.ended;
    }
    assert!(ended > 0, "where renewals are not taken, the watchdog ends the node");
}

#[test]
fn whatever_happens_to_nodes_that_keep_what_they_have_on_the_bus_nothing_is_lost() {
    for seed in 200..204 {
        let mut world = World::new(seed);
        world.nodes.iter_mut().for_each(|node| node.durable = true);
        for _ in 0..80 {
            world.disturb();
            let pause = world.random.below(2 * LEASE);
            world.run(pause);
        }
        world.settle();
        assert!(world.tables.iter().flat_map(|table| &table.homes).flatten().any(|home| home.former.len() > 1));
        assert_eq!(world.began_anew, 0, "seed {seed}");
    }
}

#[test]
fn nodes_that_join_and_leave_in_good_order_lose_nothing() {
    for seed in 0..6 {
        let mut world = World::new(seed);
        for index in 0..NODES {
            world.start(index);
            let pause = world.random.below(4 * LEASE);
            world.run(pause);
        }
        for _ in 0..20 {
            let index = world.random.below(NODES as u64) as usize;
            world.nodes[index].leaving = !world.nodes[index].leaving;
            let pause = world.random.below(4 * LEASE);
            world.run(pause);
        }
        world.settle();
        assert_eq!(world.began_anew, 0, "seed {seed}");
    }
}
