//! The placement of a large cluster, decided by the shipped code: `cargo bench -p tidegate-cluster --bench members`.
//!
//! 1,000 members, and 10 million clients that are hashed to the partitions. All members know each table at once, and
//! each move has arrived when the leader decides again: the figures are tables, moves and processor time, not the time
//! of the bus.

#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a benchmark prints its results and stops at the first surprise"
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use tidegate_cluster::{
    Addresses, Advert, Burden, Follower, PARTITIONS, Seen, Sighting, Table, Weighing, WeighingSettings, decide,
};

const MEMBERS: usize = 1_000;
const CLIENTS: u64 = 10_000_000;

struct Cluster {
    table: Table,
    seen: Seen,
    followers: BTreeMap<String, Follower>,
    clients: Vec<u64>,
}

/// The course of events until nothing changed any more.
#[derive(Default)]
struct Course {
    tables: usize,
    moves: usize,
    decisions: Vec<Duration>,
    followings: Vec<Duration>,
    record_bytes: usize,
}

fn name(number: usize) -> String {
    format!("tidegate-{number}.tidegate.svc")
}

/// The partition of a client.
fn partition_of(client: u64) -> usize {
    usize::from((tidegate_random::mix(client) >> 40) as u16 % PARTITIONS)
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

impl Cluster {
    fn new() -> Self {
        let mut clients = vec![0; usize::from(PARTITIONS)];
        (0..CLIENTS).for_each(|client| clients[partition_of(client)] += 1);
        let seen = Seen { may_bury: true, may_move: true, may_balance: true, ..Seen::default() };
        Self { table: Table::default(), seen, followers: BTreeMap::new(), clients }
    }

    fn join(&mut self, number: usize) {
        let (name, life) = (name(number), number as u64 + 1);
        let at = |port: u16| format!("10.0.{}.{}:{port}", number / 250, number % 250);
        let addresses = Addresses { cluster: at(7_000), relay: at(7_001), mqtt: at(1_883), admin: at(8_080) };
        self.seen.members.insert(name.clone(), Sighting { life, settled: true });
        self.seen.adverts.insert(name.clone(), Advert { life, addresses, kept: true, ..Advert::default() });
        self.followers.insert(name.clone(), Follower::new(&name, life, BTreeMap::new()));
    }

    fn die(&mut self, number: usize) {
        self.seen.members.remove(&name(number));
        self.followers.remove(&name(number));
    }

    /// Decides until nothing changes any more.
    fn settle(&mut self) -> Course {
        let mut course = Course::default();
        loop {
            let began = Instant::now();
            let next = decide(&self.table, &self.seen);
            course.decisions.push(began.elapsed());
            let Some(next) = next else { return course };
            course.tables += 1;
            let is_new = |id: u64| self.table.moves.iter().all(|it| it.id != id);
            let started: Vec<(u64, String)> =
                next.moves.iter().filter(|it| is_new(it.id)).map(|it| (it.id, it.to.clone())).collect();
            course.moves += started.len();
            course.record_bytes = course.record_bytes.max(next.to_bytes().len());
            self.table = next;
            for (name, follower) in &mut self.followers {
                let began = Instant::now();
                follower.take(&self.table);
                course.followings.push(began.elapsed());
                let restoring = self.table.homes.partitions(|home| home.is_some_and(|home| home.node == *name));
                for partition in restoring {
                    follower.restored(partition, self.table.home(partition).unwrap().since);
                }
                self.seen.adverts.get_mut(name).unwrap().restored = follower.fetched(&self.table);
            }
            for (id, to) in started {
                self.followers.get_mut(&to).unwrap().arrived(id);
                self.seen.adverts.get_mut(&to).unwrap().arrived.insert(id);
            }
        }
    }

    /// Decides once. All moves of the table before have arrived.
    fn step(&mut self) {
        for it in &self.table.moves {
            self.followers.get_mut(&it.to).unwrap().arrived(it.id);
            self.seen.adverts.get_mut(&it.to).unwrap().arrived.insert(it.id);
        }
        self.table = decide(&self.table, &self.seen).unwrap_or_else(|| self.table.clone());
    }

    fn report(&mut self, title: &str) {
        let began = Instant::now();
        let before = self.table.clone();
        let course = self.settle();
        let whole = began.elapsed();
        let node = |table: &Table, partition| table.home(partition).map(|home| home.node.clone());
        let has_moved = |it: &u16| node(&before, *it) != node(&self.table, *it);
        let moved: Vec<u16> = (0..PARTITIONS).filter(has_moved).collect();
        let clients: u64 = moved.iter().map(|it| self.clients[usize::from(*it)]).sum();
        let loads: Vec<usize> = self.table.lives.keys().map(|name| self.table.of(name).len()).collect();
        println!(
            "{title}: {} tables, {} moves, {} partitions with {clients} clients have another home; {} to {} partitions \
             for each of {} members",
            course.tables,
            course.moves,
            moved.len(),
            loads.iter().min().unwrap(),
            loads.iter().max().unwrap(),
            loads.len()
        );
        println!(
            "    a decision {:?}, reading a table {:?} (medians), largest table {} bytes, whole simulation {whole:?}",
            median(course.decisions),
            median(course.followings),
            course.record_bytes
        );
    }

    /// The clients of each member.
    fn clients_of_members(&self) -> BTreeMap<String, u64> {
        let mut clients: BTreeMap<String, u64> = self.table.lives.keys().map(|name| (name.clone(), 0)).collect();
        for (home, count) in self.table.homes.iter().zip(&self.clients) {
            *clients.get_mut(&home.unwrap().node).unwrap() += count;
        }
        clients
    }

    /// By which part of the mean the farthest member is off.
    fn farthest(&self) -> f64 {
        let clients = self.clients_of_members();
        let mean = clients.values().sum::<u64>() as f64 / clients.len() as f64;
        clients.values().map(|count| (*count as f64 - mean).abs() / mean).fold(0.0, f64::max)
    }

    /// Triples the clients of the first member.
    fn crowd(&mut self) {
        let first = self.table.lives.keys().next().unwrap();
        for partition in self.table.of(first) {
            self.clients[usize::from(partition)] *= 3;
        }
    }

    /// Lets shares follow the clients of members, a look each 5 s, until nothing changes for ten minutes. The leader
    /// hears the measures of three looks before, and each table of a course stays for a look.
    fn weigh(&mut self, title: &str) {
        let (pause, period) = (Duration::from_secs(60), Duration::from_secs(5));
        let (oldest, least_count) = (period * 3, Some(100.0));
        let settings =
            WeighingSettings { start: 0.02, stop: 0.005, gain: 1.0, pause, oldest, least_count, smoothing: 0.1 };
        let (mut weighing, mut changes, mut moved, mut looks, before) =
            (Weighing::default(), 0, 0, Vec::new(), self.farthest());
        let (mut look, mut last, mut measured) = (0, 0, VecDeque::new());
        while look <= last + 120 {
            let wanted = self.clients.iter().sum::<u64>() as f64 / self.table.lives.len() as f64;
            let burden = |(name, has): (String, u64)| (name, Burden { has: has as f64, wanted });
            measured.push_back(self.clients_of_members().into_iter().map(burden).collect::<BTreeMap<_, _>>());
            measured.drain(..measured.len().saturating_sub(4));
            let began = Instant::now();
            let next = weighing.look(period * look, &settings, &self.table, &self.seen, &measured[0]);
            looks.push(began.elapsed());
            if next.is_some() {
                (changes, last) = (changes + 1, look);
                self.seen.factors = next;
            }
            let homes = self.table.homes.clone();
            self.step();
            self.seen.factors = None;
            moved += homes.iter().zip(self.table.homes.iter()).filter(|(old, new)| old != new).count();
            look += 1;
        }
        let minutes = (period * last).as_secs() / 60;
        println!(
            "{title}: {:.1} % off before, {:.1} % after {changes} changes in {minutes} minutes, {moved} partitions moved; a \
             look {:?} (median)",
            100.0 * before,
            100.0 * self.farthest(),
            median(looks)
        );
    }

    fn report_bytes(&self) {
        let (table, members) = (self.table.to_bytes().len(), self.table.lives.len());
        let adverts: usize = self.seen.adverts.values().map(|advert| advert.to_bytes().len()).sum();
        println!(
            "table {table} bytes: {} for each member, {} for each partition; adverts {adverts} bytes: {} for each member",
            table / members,
            table / usize::from(PARTITIONS),
            adverts / self.seen.adverts.len()
        );
        let mean = CLIENTS / u64::from(PARTITIONS);
        let (least, most) = (self.clients.iter().min().unwrap(), self.clients.iter().max().unwrap());
        println!("clients of a partition: {least} to {most}, mean {mean}");
    }
}

fn main() {
    for members in [10, 50, MEMBERS] {
        let mut cluster = Cluster::new();
        (0..members).for_each(|number| cluster.join(number));
        cluster.report(&format!("{members} members start together"));
        cluster.die(members / 2);
        cluster.report("one dies");
        cluster.join(members);
        cluster.report("one joins");
        (0..members / 10).for_each(|number| cluster.die(number));
        cluster.report("a tenth dies together");
        (members + 1..members + 1 + members / 10).for_each(|number| cluster.join(number));
        cluster.report("a tenth joins together");
        cluster.report_bytes();
        cluster.crowd();
        cluster.weigh("the first has three times the clients");
    }
}
