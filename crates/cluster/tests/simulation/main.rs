//! Nodes that die, return, stop for a while and are cut off, a bus that is late, and two leaders at once: seeded, over
//! the shipped code.
//!
//! The checks are about effects that clients would notice: a node that acknowledges a message for a partition has all
//! messages acknowledged for it before, unless a table said that the partition begins with nothing.
//!
//! `CLUSTER_SIM_SKIP=6000` plays later seeds, by this number.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod preparing;
mod stalls;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_cluster::{
    Advert, DOUBT_LIMIT, Follower, Former, PARTITIONS, PartitionDifference, Seen, Settling, Sight, Sighting, Step,
    Table, Watchdog, decide, deputy,
};
use tidegate_random::SplitMix64;

use self::preparing::{behind_those_sent, without_those_sent};
use self::stalls::Stall;

/// How long a tick is.
const TICK: Duration = Duration::from_millis(100);
const LEASE: u64 = 100;
const BEAT: u64 = 25;
/// Ticks between two looks of a node at its shards.
const LOOK: u64 = 10;
/// For how long nodes have to stay as they are before shares are made even, in ticks.
const SETTLE: u64 = 50;
const NODES: usize = 4;
/// In each tick one partition of this number is checked. The others are looked at in turn, one share of them in each
/// tick: partitions move together, and some of each move are always looked at. It divides by no number of nodes.
const WATCHED: u64 = 33;

type Content = BTreeMap<u16, Vec<u64>>;
/// A former home, the partitions that it holds or has got by a move and since which epoch, and their content.
type Left = (Former, BTreeMap<u16, u64>, BTreeMap<u16, u64>, Content);

#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
struct Node {
    name: String,
    alive: bool,
    /// The process is suspended until then.
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
    /// When it asked for a beat that the log has not taken yet.
    asked: Option<u64>,
    /// Until when its shards have a lease, as far as they know, and whether that has ended for them.
    shards_until: u64,
    shards_ended: bool,
    watchdog: Watchdog,
    next_look: u64,
    difference: PartitionDifference,
    follower: Follower,
    /// Tables that it has read, and the newest.
    read: usize,
    table: Table,
    /// The content of partitions.
    content: Content,
    arrived: BTreeSet<u64>,
    leaving: bool,
    /// Its connections to brokers wait until then for the end of its last life's connections.
    waits_until: u64,
    /// The images of dead nodes that it fetches or has fetched.
    restoring: Vec<Restoring>,
    restored: BTreeMap<u16, u64>,
    /// Its claim to the log of tables, and how many tables there were before.
    claim: Option<(u64, usize)>,
    sightings: BTreeMap<String, (u64, u64)>,
    settling: Settling,
    /// The bus takes no more of its records: another node has claimed its log.
    fenced: bool,
    /// When its process has ended.
    died_at: u64,
    /// Until when its address refuses connections of others although it lives.
    refuses_until: u64,
    /// Ends of queues that have come before the partitions of moves, as they were then.
    ahead: BTreeMap<u64, Content>,
    /// The same of moves from here, as the new home has confirmed it.
    sent_ahead: BTreeMap<u64, Content>,
}

/// A fetch of dead nodes' images, which takes its time.
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
    /// The first message of each partition that the new home has got ahead of the image, and is still owed.
    ahead: Option<BTreeMap<u16, u64>>,
}

struct World {
    random: SplitMix64,
    now: u64,
    nodes: Vec<Node>,
    lives: u64,
    /// The group: life and time of the last beat, without the time in which its log took no record.
    group: BTreeMap<String, (u64, u64)>,
    stall: Stall,
    tables: Vec<Table>,
    claims: u64,
    adverts: BTreeMap<String, Vec<(u64, Advert)>>,
    images: Vec<Image>,
    acknowledged: Vec<Vec<u64>>,
    begun_empty: usize,
    written: u64,
    seed: u64,
    /// A fault: ended shards stay ended until the next table.
    latches: bool,
    /// How often a node has ended its process, since it did not serve its partitions.
    ended: usize,
    /// Whether nodes say of others that they have ended.
    accuses: bool,
    /// In how many of 200 turns a node takes itself for the leader, for one decision. While it says so, no deputy leads.
    strays: u64,
    settle: u64,
    /// How long a fetch of a dead node's images takes at most.
    fetches_within: u64,
    /// Partitions that a node which keeps nothing has fetched and serves, before a table says so. If it dies, they are
    /// fetched again without the messages that it has acknowledged.
    unkept: BTreeSet<u16>,
    /// The first partition that is looked at in each tick.
    watched: u64,
    /// Since when each partition that is looked at in each tick is served by no node, and for how long that was at most.
    served_at: Vec<u64>,
    longest_gap: u64,
    /// Whether nodes prepare moves: they send a part ahead.
    prepares: bool,
    /// How long a process that begins waits for its brokers at most.
    waits_within: u64,
    /// Images that named messages which were sent ahead.
    shortened: usize,
}

/// The seeds that a test plays.
fn seeds(seeds: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    let skipped = std::env::var("CLUSTER_SIM_SKIP").map_or(0, |text| text.parse::<u64>().unwrap());
    seeds.map(move |seed| seed + skipped)
}

fn watchdog() -> Watchdog {
    Watchdog::new(TICK * LEASE as u32)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: SplitMix64::new(seed),
            now: 1,
            nodes: Vec::new(),
            lives: 0,
            group: BTreeMap::new(),
            stall: Stall::default(),
            tables: Vec::new(),
            claims: 0,
            adverts: BTreeMap::new(),
            images: Vec::new(),
            acknowledged: vec![Vec::new(); usize::from(PARTITIONS)],
            begun_empty: 0,
            written: 0,
            seed,
            latches: false,
            ended: 0,
            accuses: true,
            strays: 1,
            settle: SETTLE,
            fetches_within: 2 * LEASE,
            unkept: BTreeSet::new(),
            watched: 0,
            served_at: vec![0; usize::from(PARTITIONS)],
            longest_gap: 0,
            prepares: false,
            waits_within: 0,
            shortened: 0,
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
                asked: None,
                shards_until: 0,
                shards_ended: true,
                watchdog: watchdog(),
                next_look: 0,
                difference: PartitionDifference::default(),
                read: 0,
                table: Table::default(),
                content: Content::new(),
                arrived: BTreeSet::new(),
                leaving: false,
                waits_until: 0,
                restoring: Vec::new(),
                restored: BTreeMap::new(),
                claim: None,
                sightings: BTreeMap::new(),
                settling: Settling::default(),
                fenced: false,
                died_at: 0,
                refuses_until: 0,
                ahead: BTreeMap::new(),
                sent_ahead: BTreeMap::new(),
            };
            world.nodes.push(node);
        }
        world
    }

    /// A process begins, or continues as another life.
    fn begin_life(&mut self, index: usize, after: Option<u64>) {
        self.lives += 1;
        let (life, now) = (self.lives, self.now);
        let node = &mut self.nodes[index];
        let (remembered, arrivals) = (node.follower.holdings(), node.follower.arrivals());
        node.follower = Follower::new(&node.name, life, remembered).with_arrivals(arrivals);
        (node.life, node.after, node.joined_at, node.lease_until, node.next_beat) = (life, after, now, 0, now);
        (node.read, node.table, node.claim, node.answer) = (0, Table::default(), None, None);
        node.asked = None;
        node.arrived.clear();
        node.restoring.clear();
        node.sightings.clear();
        node.settling = Settling::default();
        node.sent_ahead.clear();
    }

    fn start(&mut self, index: usize) {
        let after = self.nodes[index].durable.then_some(self.nodes[index].life);
        self.start_after(index, after);
    }

    /// A process begins that knows of this life that it has ended.
    fn start_after(&mut self, index: usize, after: Option<u64>) {
        let node = &mut self.nodes[index];
        if !node.durable {
            node.content.clear();
            node.restored.clear();
            node.ahead.clear();
            node.follower = Follower::new(&node.name, 0, BTreeMap::new());
        }
        (node.alive, node.stopped_until, node.cut_until, node.leaving) = (true, 0, 0, false);
        (node.shards_until, node.shards_ended, node.watchdog) = (0, true, watchdog());
        (node.fenced, node.refuses_until) = (false, 0);
        self.wait_for_brokers(index);
        self.begin_life(index, after);
    }

    fn tick(&mut self) {
        self.now += 1;
        self.stall.count(self.now);
        for index in 0..NODES {
            let node = &self.nodes[index];
            if !node.alive || node.stopped_until > self.now {
                continue;
            }
            if self.nodes[index].fenced && self.nodes[index].cut_until <= self.now {
                // Its store says so, and the process ends and is started again.
                self.start(index);
            }
            self.keep_lease(index);
            if self.nodes[index].cut_until <= self.now {
                self.beat(index);
            }
            if self.reaches_logs(index) {
                self.read(index);
                self.lead(index);
                self.prepare(index);
                self.advertise(index);
            }
            self.take_images(index);
            if self.reaches_logs(index) {
                self.restore(index);
            }
            self.serve(index);
            self.look(index);
        }
    }

    /// Shards look at the lease before anything else. Records of the bus that have come meanwhile are read
    /// before the check whether the membership was lost, or after it.
    fn keep_lease(&mut self, index: usize) {
        let (now, hears_first) = (self.now, self.random.below(2) == 0);
        let node = &mut self.nodes[index];
        node.shards_ended |= node.shards_until <= now;
        if hears_first {
            self.hear(index);
        }
        let node = &self.nodes[index];
        let is_lost = self.group.get(&node.name).is_none_or(|(life, _)| *life != node.life);
        if node.lease_until != 0 && node.lease_until <= now && node.cut_until <= now && is_lost {
            // The group has given it up. A node that the group still has continues when it hears of its next beat.
            let life = node.life;
            self.stall.lost += 1;
            return self.begin_life(index, Some(life));
        }
        self.hear(index);
    }

    fn hear(&mut self, index: usize) {
        let (now, latches) = (self.now, self.latches);
        let node = &mut self.nodes[index];
        let Some((_, asked)) = node.answer.take_if(|(at, _)| *at <= now) else { return };
        self.stall.continued += usize::from(node.lease_until != 0 && node.lease_until <= now && asked + LEASE > now);
        node.lease_until = asked + LEASE;
        // Shards that follow a table of this life are notified, and a lease that never ended continues.
        if node.follower.is_member() && node.lease_until > now {
            node.shards_until = node.lease_until;
            node.shards_ended &= latches;
        }
    }

    /// Compares a node's table with its shards. One that goes astray for too long is started again.
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
            is_saving: false,
            serves: Some(&serves),
        };
        node.difference = node.watchdog.look(TICK * now as u32, &sight);
        if node.difference.ends {
            self.ended += 1;
            self.start(index);
        }
    }

    /// Shows that a node lives, and buries dead nodes.
    fn beat(&mut self, index: usize) {
        let now = self.now;
        if self.nodes[index].next_beat > now {
            return;
        }
        let node = &mut self.nodes[index];
        if self.stall.until > now {
            node.asked.get_or_insert(now);
            return;
        }
        // It was asked for a little earlier than it is accepted, and heard of a little later.
        let (heard, late) = (now + self.random.below(5), node.asked.take());
        let asked = late.unwrap_or_else(|| now - self.random.below(3).min(now));
        node.answer = Some((heard, asked));
        node.next_beat = late.map_or(now + BEAT, |asked| (asked + BEAT).max(now + 1));
        let counted = self.stall.accept(now);
        self.group.retain(|name, (_, seen)| *name == node.name || counted.saturating_sub(*seen) < LEASE);
        self.group.insert(node.name.clone(), (node.life, counted));
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
        let open: BTreeSet<u64> = table.open_moves().map(|it| it.id).collect();
        node.ahead.retain(|id, _| open.contains(id));
        node.sent_ahead.retain(|id, _| open.contains(id));
        node.table = table;
        if node.follower.is_member() {
            (node.shards_until, node.shards_ended) = (node.lease_until, node.lease_until <= self.now);
        }
        for step in steps {
            self.carry_out(index, step);
        }
        let (name, life) = (&self.nodes[index].name, self.nodes[index].life);
        if self.nodes[index].table.given_up.get(name) == Some(&life) {
            self.begin_life(index, Some(life));
        }
    }

    fn carry_out(&mut self, index: usize, step: Step) {
        let node = &mut self.nodes[index];
        match step {
            Step::Forget(partitions) => node.content.retain(|partition, _| !partitions.contains(partition)),
            Step::Send { id, partitions, to } => {
                let content = partitions.iter().map(|it| (*it, node.content.get(it).cloned().unwrap_or_default()));
                let mut content: Content = content.collect();
                let ahead = node.sent_ahead.get(&id).map(|sent| without_those_sent(&mut content, sent));
                self.shortened += usize::from(ahead.as_ref().is_some_and(|ahead| !ahead.is_empty()));
                let to = self.nodes.iter().position(|node| node.name == to).unwrap();
                let at = self.now + self.random.below(LEASE);
                self.images.push(Image { id, to, at, content, ahead });
            }
            Step::Begin { partitions, lost } => {
                for partition in partitions {
                    assert!(node.content.insert(partition, Vec::new()).is_none(), "seed {}: not forgotten", self.seed);
                    self.begun_empty += usize::from(lost);
                    self.acknowledged[usize::from(partition)].clear();
                }
            }
            Step::Restore { partitions, former } => {
                let at = self.now + self.random.below(self.fetches_within);
                let living = node.table.lives.clone();
                node.restoring.push(Restoring { at, partitions, former: former.clone() });
                for it in former {
                    let before = self.nodes.iter_mut().find(|node| node.name == it.node).unwrap();
                    before.fenced |= before.alive && before.durable && !living.contains_key(&it.node);
                }
            }
            Step::Expect { .. } | Step::Resume(_) | Step::TakeOver { .. } | Step::Keep(_) => {}
        }
    }

    /// Fetches dead nodes' images. A node with its store on the bus has there all that it remembers to have.
    fn restore(&mut self, index: usize) {
        let now = self.now;
        let due: Vec<Restoring> = self.nodes[index].restoring.extract_if(.., |it| it.at <= now).collect();
        for Restoring { partitions, former, .. } in due {
            let left_by = self.left_by(&former);
            for partition in partitions {
                let tidegate_cluster::Standing::Restoring { since, .. } =
                    self.nodes[index].follower.standing(partition)
                else {
                    continue;
                };
                let left = left_by.iter().find_map(|(it, held, arrived, content)| {
                    let is_there = held.get(&partition) == Some(&it.since)
                        || it.by.is_some_and(|by| arrived.get(&partition) == Some(&by));
                    is_there.then(|| content.get(&partition).cloned().unwrap())
                });
                if left.is_none() || self.unkept.remove(&partition) {
                    // A home that died before it read of its partition had nothing of it.
                    let acknowledged = &mut self.acknowledged[usize::from(partition)];
                    self.begun_empty += usize::from(!acknowledged.is_empty());
                    *acknowledged = left.clone().unwrap_or_default();
                }
                let node = &mut self.nodes[index];
                if !node.durable {
                    self.unkept.insert(partition);
                }
                node.content.insert(partition, left.unwrap_or_default());
                assert!(node.follower.restored(partition, since));
            }
            let node = &mut self.nodes[index];
            node.restored = node.follower.fetched(&node.table);
        }
    }

    /// The state that former homes have left: the partitions that each holds or has got by a move, and their content.
    fn left_by(&self, former: &[Former]) -> Vec<Left> {
        let of = |it: &Former| {
            let node = self.nodes.iter().find(|node| node.name == it.node)?;
            Some((it.clone(), node.follower.holdings(), node.follower.arrivals(), node.content.clone()))
        };
        former.iter().filter_map(of).collect()
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
                let came = node.ahead.remove(&image.id);
                node.content.extend(match image.ahead {
                    // It was confirmed, so it has come.
                    Some(ahead) => behind_those_sent(image.content, &ahead, &came.unwrap()),
                    None => image.content,
                });
            } else {
                left.push(image);
            }
        }
        self.images = left;
    }

    /// A node that thinks it leads decides; the log takes what its newest owner appends.
    fn lead(&mut self, index: usize) {
        if self.now % 5 != index as u64 % 5 {
            return;
        }
        let (may_lead, now) = (self.random.below(200) < self.strays, self.now);
        for (name, (life, _)) in &self.group {
            let node = &mut self.nodes[index];
            if node.sightings.get(name).is_none_or(|(known, _)| known != life) {
                node.sightings.insert(name.clone(), (*life, now));
            }
        }
        let mut seen = self.seen(index);
        let node = &mut self.nodes[index];
        let is_deputy = deputy(&node.table, &seen) == Some(&node.name);
        if self.group.keys().next() != Some(&node.name) && !is_deputy && !may_lead {
            return;
        }
        if self.nodes[index].claim.is_none_or(|(claim, _)| claim != self.claims) {
            self.claims += 1;
            self.nodes[index].claim = Some((self.claims, self.tables.len()));
        }
        let node = &mut self.nodes[index];
        let Some((_, before)) = node.claim else { return };
        if node.read < before.max(self.tables.len()) {
            return;
        }
        // The newest one may have been passed over by this reader; the leader decides on the newest there is.
        let newest = self.tables.last().cloned().unwrap_or_default();
        let settle = TICK * self.settle as u32;
        seen.may_balance = node.settling.look(TICK * now as u32, settle, &newest, &seen);
        if let Some(next) = decide(&newest, &seen) {
            self.check_waiting(&newest, &next, &seen);
            self.unkept.retain(|it| next.home(*it).is_some_and(|home| !home.former.is_empty()));
            self.tables.push(next);
        }
    }

    /// The facts that a node would decide by.
    fn seen(&self, index: usize) -> Seen {
        let (now, node) = (self.now, &self.nodes[index]);
        let since = |name: &String| node.sightings.get(name).map_or(now, |(_, since)| *since);
        let sighting = |(name, (life, _)): (&String, &(u64, u64))| {
            (name.clone(), Sighting { life: *life, settled: now - since(name) >= LEASE })
        };
        Seen {
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
            may_balance: true,
            factors: None,
            expected: BTreeSet::new(),
            linked: None,
        }
    }

    /// Whose process has ended for a node, as far as their addresses say.
    fn takes_for_ended(&self, index: usize) -> BTreeMap<String, u64> {
        let limit = (DOUBT_LIMIT.as_millis() / TICK.as_millis()) as u64;
        let refuses = |node: &Node| {
            if node.alive { node.refuses_until > self.now } else { self.now >= node.died_at + limit }
        };
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, node)| node);
        let accused = others.filter(|node| self.accuses && refuses(node));
        accused.map(|node| (node.name.clone(), node.life)).collect()
    }

    fn advertise(&mut self, index: usize) {
        let ended = self.takes_for_ended(index);
        let node = &self.nodes[index];
        let advert = Advert {
            leads: node.claim.is_some_and(|(claim, _)| claim == self.claims),
            ended,
            life: node.life,
            after: node.after,
            arrived: node.arrived.clone(),
            leaving: node.leaving,
            waits: self.now < node.waits_until,
            kept: node.durable,
            restored: node.restored.clone(),
            prepares: self.prepares,
            prepared: node.sent_ahead.keys().copied().collect(),
            ..Advert::default()
        };
        let words = self.adverts.entry(node.name.clone()).or_default();
        if words.last().is_none_or(|(_, last)| *last != advert) {
            let at = words.last().map_or(0, |(at, _)| *at).max(self.now + self.random.below(20));
            words.push((at, advert));
        }
    }

    /// Acknowledges something for each partition that is served and looked at.
    fn serve(&mut self, index: usize) {
        let node = &self.nodes[index];
        // A node that keeps its store on the bus writes a message there before it acknowledges it.
        if node.shards_ended || node.fenced || node.durable && !self.reaches_logs(index) {
            return;
        }
        let node = &mut self.nodes[index];
        let share = |first: u64| (first as u16..PARTITIONS).step_by(WATCHED as usize);
        let in_turn = share((self.watched + 1 + self.now % (WATCHED - 1)) % WATCHED);
        for partition in share(self.watched).chain(in_turn).filter(|partition| node.follower.serves(*partition)) {
            let all = &mut self.acknowledged[usize::from(partition)];
            let own = node.content.get_mut(&partition);
            let own =
                own.unwrap_or_else(|| panic!("seed {}: {} serves {partition}, which it has not", self.seed, node.name));
            assert_eq!(
                own, all,
                "seed {}: {} serves {partition} without all that was acknowledged",
                self.seed, node.name
            );
            if u64::from(partition) % WATCHED == self.watched {
                let served_at = &mut self.served_at[usize::from(partition)];
                self.longest_gap = self.longest_gap.max(self.now - *served_at);
                *served_at = self.now;
            }
            self.written += 1;
            own.push(self.written);
            all.push(self.written);
            // Old messages prove nothing more.
            if all.len() > 8 {
                own.drain(..4);
                all.drain(..4);
            }
        }
    }

    /// Looks at a partition of a node in each tick from now on.
    fn watch_some_of(&mut self, index: usize) {
        let follower = &self.nodes[index].follower;
        let own = (0..PARTITIONS).find(|partition| follower.serves(*partition)).unwrap();
        self.watched = u64::from(own) % WATCHED;
        self.served_at.fill(self.now);
    }

    fn disturb(&mut self) {
        let index = self.random.below(NODES as u64) as usize;
        let until = self.now + self.random.below(3 * LEASE);
        // A process that is suspended for about its lease wakes when others give it up, or are about to.
        let stop = if self.random.below(2) == 0 { self.now + LEASE - BEAT + self.random.below(BEAT) } else { until };
        let node = &mut self.nodes[index];
        match self.random.below(7) {
            0 if node.alive => (node.alive, node.died_at) = (false, self.now),
            // Wrongly: it lives, and may reach the bus or not.
            5 if node.alive => node.refuses_until = until,
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
            (node.stopped_until, node.cut_until, node.leaving, node.refuses_until) = (0, 0, false, 0);
        }
        self.stall.until = 0;
        self.run(40 * LEASE);
        let tables = self.tables.len();
        self.run(5 * LEASE);
        assert_eq!(tables, self.tables.len(), "seed {}: a stable cluster changes its table", self.seed);
        for node in &mut self.nodes {
            assert_eq!(node.content.len(), usize::from(PARTITIONS) / NODES, "seed {}: {}", self.seed, node.name);
            let served = (0..PARTITIONS).filter(|partition| node.follower.serves(*partition)).count();
            assert_eq!(served, usize::from(PARTITIONS) / NODES, "seed {}: {}", self.seed, node.name);
            let state = (node.shards_ended, node.difference);
            assert_eq!(
                state,
                (false, PartitionDifference::default()),
                "seed {}: {} serves no client",
                self.seed,
                node.name
            );
        }
    }
}

#[test]
fn nodes_acknowledge_only_messages_they_have_and_all_is_served() {
    for seed in seeds(0..10) {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.disturb();
            let pause = world.random.below(LEASE);
            world.run(pause);
        }
        world.settle();
        assert_eq!(world.ended, 0, "seed {seed}: a node had to end its process");
    }
}

/// Stops of about a lease, and nothing else: a node that wakes serves again, without having to end.
#[test]
fn nodes_that_stand_still_for_about_their_lease_serve_again() {
    let mut ended = 0;
    for (seed, latches) in seeds(12..24).map(|seed| (seed, seed % 2 == 1)) {
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
        assert!(latches || world.ended == 0, "seed {seed}: a node had to end its process");
        ended += world.ended;
    }
    assert!(ended > 0, "where renewals are not taken, the watchdog ends the node");
}

#[test]
fn nodes_that_keep_their_store_on_the_bus_lose_nothing() {
    let mut died_in_turn = false;
    for seed in seeds(200..206) {
        let mut world = World::new(seed);
        world.nodes.iter_mut().for_each(|node| node.durable = true);
        for _ in 0..80 {
            world.disturb();
            let pause = world.random.below(2 * LEASE);
            world.run(pause);
        }
        world.settle();
        died_in_turn |=
            world.tables.iter().flat_map(|table| table.homes.shares()).any(|(home, _)| home.former.len() > 1);
        assert_eq!(world.begun_empty, 0, "seed {seed}");
    }
    assert!(died_in_turn, "a node died that had not fetched all of another one");
}

#[test]
fn nodes_that_join_and_leave_in_good_order_lose_nothing() {
    for seed in seeds(0..6) {
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
        assert_eq!(world.begun_empty, 0, "seed {seed}");
    }
}

/// A world of nodes that keep their store on the bus and have come to even shares.
fn durable(seed: u64) -> World {
    let mut world = World::new(seed);
    world.nodes.iter_mut().for_each(|node| node.durable = true);
    (0..NODES).for_each(|index| world.start(index));
    world.run(20 * LEASE);
    world
}

/// For how long some partition is served by no node when a node dies.
fn gap(seed: u64, index: usize, accuses: bool) -> u64 {
    let mut world = durable(seed);
    world.watch_some_of(index);
    (world.accuses, world.strays, world.longest_gap, world.fetches_within) = (accuses, 0, 0, 5);
    (world.nodes[index].alive, world.nodes[index].died_at) = (false, world.now);
    world.run(5 * LEASE);
    assert!(!world.tables.last().unwrap().lives.contains_key(&world.nodes[index].name));
    assert_eq!(world.begun_empty, 0, "seed {seed}");
    world.longest_gap
}

#[test]
fn a_dead_node_is_replaced_long_before_its_lease_ends() {
    for (seed, index) in [0, 1, 1001, 6001].into_iter().flat_map(|seed| (0..NODES).map(move |index| (seed, index))) {
        let (early, late) = (gap(seed, index, true), gap(seed, index, false));
        // Ten ticks until all are sure; the rest is the time to read words and tables.
        assert!(early <= LEASE * 7 / 10, "seed {seed}: {early} ticks without node {index}");
        assert!(late >= LEASE - BEAT, "seed {seed}: {late} ticks without node {index}");
    }
}

#[test]
fn a_node_that_returns_in_its_place_waits_for_no_lease() {
    for (seed, index) in seeds(0..2).flat_map(|seed| (0..NODES).map(move |index| (seed, index))) {
        let mut world = durable(seed);
        (world.accuses, world.longest_gap) = (false, 0);
        (world.nodes[index].alive, world.nodes[index].died_at) = (false, world.now);
        world.run(5);
        // Its log is on the bus, and it claims that before it joins.
        world.start(index);
        world.run(5 * LEASE);
        assert_eq!(world.begun_empty, 0, "seed {seed}");
        assert!(world.longest_gap <= LEASE * 7 / 10, "seed {seed}: {} ticks without node {index}", world.longest_gap);
    }
}

/// The first one is cut off from the bus. What needs no commit it still acknowledges, until its lease ends.
#[test]
fn a_second_process_of_a_name_never_serves_beside_the_first() {
    for (seed, index) in seeds(0..2).flat_map(|seed| (0..NODES).map(move |index| (seed, index))) {
        let mut world = durable(seed);
        world.accuses = false;
        let (first, first_serves_until) = (&world.nodes[index], world.nodes[index].shards_until);
        let partitions: Vec<u16> = (0..PARTITIONS).filter(|it| first.follower.serves(*it)).collect();
        assert!(!partitions.is_empty() && first_serves_until > world.now);
        // It has the store of the first from the bus, and listens elsewhere.
        world.start_after(index, None);
        let serves = |node: &Node| !node.shards_ended && partitions.iter().any(|it| node.follower.serves(*it));
        let end = world.now + 5 * LEASE;
        while !serves(&world.nodes[index]) {
            world.tick();
            assert!(world.now < end, "seed {seed}: node {index} is served again");
        }
        assert!(world.now >= first_serves_until, "seed {seed}: both serve as node {index}");
        assert_eq!(world.begun_empty, 0, "seed {seed}");
    }
}

/// Others say of a node that it has ended, while it lives, and reaches the bus or not.
#[test]
fn who_is_wrongly_taken_for_dead_loses_nothing() {
    let mut given_up = 0;
    for seed in seeds(300..306) {
        let mut world = durable(seed);
        for _ in 0..40 {
            let index = world.random.below(NODES as u64) as usize;
            let until = world.now + world.random.below(2 * LEASE);
            world.nodes[index].refuses_until = until;
            if world.random.below(2) == 0 {
                world.nodes[index].cut_until = world.now + world.random.below(LEASE);
            }
            let pause = world.random.below(2 * LEASE);
            world.run(pause);
        }
        world.settle();
        given_up += world.tables.iter().filter(|table| !table.given_up.is_empty()).count();
        assert_eq!((world.begun_empty, world.ended), (0, 0), "seed {seed}");
    }
    assert!(given_up > 0, "a node was given up");
}

/// How often partitions get another home while all nodes are stopped and started again in turn, and whether each of them
/// has left a node that was stopped.
fn rolling_restart(seed: u64, settle: u64) -> (usize, bool) {
    let mut world = durable(seed);
    world.settle = settle;
    let (mut moves, mut only_leaving) = (0, true);
    for index in 0..NODES {
        let tables = world.tables.len();
        world.nodes[index].leaving = true;
        let name = world.nodes[index].name.clone();
        while !world.tables.last().unwrap().of(&name).is_empty() {
            world.tick();
        }
        (world.nodes[index].alive, world.nodes[index].died_at) = (false, world.now);
        world.run(20);
        world.start(index);
        world.run(2 * LEASE);
        for pair in world.tables[tables - 1..].windows(2) {
            for (before, after) in pair[0].homes.iter().zip(pair[1].homes.iter()) {
                let (before, after) = (&before.unwrap().node, &after.unwrap().node);
                moves += usize::from(before != after);
                only_leaving &= before == after || *before == name;
            }
        }
    }
    world.settle();
    assert_eq!(world.begun_empty, 0, "seed {seed}");
    (moves, only_leaving)
}

#[test]
fn a_rolling_restart_moves_only_what_stopping_nodes_have() {
    for seed in seeds(400..403) {
        let (at_once, _) = rolling_restart(seed, 0);
        let (settled, only_leaving) = rolling_restart(seed, 10 * LEASE);
        assert!(only_leaving, "seed {seed}: partitions of a node that keeps running were moved");
        assert!(settled < at_once, "seed {seed}: {settled} moves, {at_once} without waiting");
    }
}
