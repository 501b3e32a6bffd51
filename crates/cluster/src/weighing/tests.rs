//! Members whose loads follow their partitions, on a virtual clock. A failure names its seed.

use std::collections::VecDeque;

use tidegate_random::SplitMix64;

use super::*;
use crate::{Advert, MOVE_AT_ONCE, PARTITIONS, Sighting, Weight, decide};

/// Time between two measures.
const PERIOD: Duration = Duration::from_secs(5);
/// As for clients: within 2 % of the ideal number.
const CLIENTS: WeighingSettings =
    WeighingSettings { start: 0.02, stop: 0.005, gain: 1.0, least_count: Some(100.0), ..LOAD };
/// As for utilisation, which wavers.
const LOAD: WeighingSettings = WeighingSettings {
    start: 0.15,
    stop: 0.05,
    gain: 0.5,
    pause: Duration::from_secs(60),
    oldest: Duration::from_secs(15),
    least_count: None,
    smoothing: 0.1,
};

/// Numbers of a seed.
struct Random(SplitMix64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// A number from 0 to 1.
    fn part(&mut self) -> f64 {
        f64::from((self.next() % 10_000) as u16) / 10_000.0
    }
}

struct World {
    table: Table,
    seen: Seen,
    weighing: Weighing,
    settings: WeighingSettings,
    now: Duration,
    /// The amount that each partition brings to its member.
    brings: Vec<f64>,
    /// The capacity of each member: its measure is the sum of its partitions, divided by this.
    size: BTreeMap<String, f64>,
    /// By which part measures waver.
    noise: f64,
    random: Random,
    changes: usize,
    moved: usize,
    /// Partitions that had moved when the factors changed last; `None` since a member has joined.
    moved_before: Option<usize>,
    /// The latest measures, the oldest first: that one is heard.
    measured: VecDeque<BTreeMap<String, Burden>>,
    /// Moves that are under way, their receivers, and when they arrive.
    under_way: Vec<(u64, String, Duration)>,
}

/// How long a move takes: measures are taken meanwhile.
const MOVE: Duration = Duration::from_secs(20);
/// The number of measures before the latest one.
const LATE: usize = 3;

fn mean<'a>(all: impl ExactSizeIterator<Item = &'a f64>) -> f64 {
    let count = real(all.len());
    all.sum::<f64>() / count
}

fn name(number: usize) -> String {
    format!("n{number:04}")
}

impl World {
    fn new(seed: u64, members: usize, settings: WeighingSettings, brings: Vec<f64>) -> Self {
        let mut world = Self {
            table: Table::default(),
            seen: Seen { may_bury: true, may_move: true, may_balance: true, ..Seen::default() },
            weighing: Weighing::default(),
            settings,
            now: Duration::from_secs(1_000),
            brings,
            size: BTreeMap::new(),
            noise: 0.0,
            random: Random::new(seed),
            changes: 0,
            moved: 0,
            moved_before: None,
            measured: VecDeque::new(),
            under_way: Vec::new(),
        };
        (0..members).for_each(|number| world.join(number));
        world.settle();
        world.moved = 0;
        world
    }

    fn join(&mut self, number: usize) {
        let (name, life) = (name(number), number as u64 + 1);
        self.seen.members.insert(name.clone(), Sighting { life, settled: true });
        self.seen.adverts.insert(name.clone(), Advert { life, ..Advert::default() });
        self.size.insert(name, 1.0);
        self.moved_before = None;
    }

    /// Decides, and begins the moves that follow.
    fn step(&mut self) {
        let now = self.now;
        for (id, to, _) in self.under_way.extract_if(.., |(_, _, at)| *at <= now) {
            self.seen.adverts.get_mut(&to).unwrap().arrived.insert(id);
        }
        while let Some(next) = decide(&self.table, &self.seen) {
            for it in next.moves.iter().filter(|it| !self.table.moves.contains(it)) {
                self.moved += it.partitions.len();
                self.under_way.push((it.id, it.to.clone(), now + MOVE));
            }
            self.table = next;
        }
        self.seen.factors = None;
        if let Some(before) = self.moved_before {
            let moved = self.moved - before;
            assert!(moved <= PARTITIONS_PER_CHANGE + self.size.len(), "{moved} partitions moved by one change");
        }
    }

    /// Decides, and has every move arrive, until nothing changes any more.
    fn settle(&mut self) {
        while let Some(next) = decide(&self.table, &self.seen) {
            for it in next.moves.iter().filter(|it| !self.table.moves.contains(it)) {
                assert!(it.partitions.len() <= MOVE_AT_ONCE);
                self.moved += it.partitions.len();
                self.seen.adverts.get_mut(&it.to).unwrap().arrived.insert(it.id);
            }
            self.table = next;
        }
        self.seen.factors = None;
    }

    /// The measures of all members.
    fn measures(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<&str, f64> = self.size.keys().map(|name| (name.as_str(), 0.0)).collect();
        for (home, brings) in self.table.homes.iter().zip(&self.brings) {
            *sums.get_mut(home.unwrap().node.as_str()).unwrap() += brings;
        }
        sums.into_iter().map(|(name, sum)| (name.to_owned(), sum / self.size[name])).collect()
    }

    /// Measures, each with the mean of all as the wanted amount.
    fn burdens(&mut self) -> BTreeMap<String, Burden> {
        let mut measured = self.measures();
        for has in measured.values_mut() {
            *has *= 1.0 + self.noise * (2.0 * self.random.part() - 1.0);
        }
        let wanted = mean(measured.values());
        measured.into_iter().map(|(name, has)| (name, Burden { has, wanted })).collect()
    }

    fn period(&mut self) {
        self.now += PERIOD;
        let burdens = self.burdens();
        self.measured.push_back(burdens);
        self.measured.drain(..self.measured.len().saturating_sub(LATE + 1));
        let heard = self.measured.front().unwrap();
        let next = self.weighing.look(self.now, &self.settings, &self.table, &self.seen, heard);
        if next.is_some() {
            assert_eq!(self.under_way, [], "factors change while partitions move");
            self.changes += 1;
            self.moved_before = Some(self.moved);
            self.seen.factors = next;
        }
        self.step();
    }

    fn run(&mut self, minutes: u32) {
        (0..minutes * 12).for_each(|_| self.period());
    }

    /// By which part of the mean the farthest member is off.
    fn farthest(&self) -> f64 {
        let all: Vec<f64> = self.measures().into_values().collect();
        let mean = mean(all.iter());
        all.iter().map(|has| (has - mean).abs() / mean).fold(0.0, f64::max)
    }
}

/// The number of clients of each partition, out of a total.
fn clients(seed: u64, count: usize) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut clients = vec![0.0; usize::from(PARTITIONS)];
    (0..count).for_each(|_| clients[(random.next() % u64::from(PARTITIONS)) as usize] += 1.0);
    clients
}

#[test]
fn equal_clients_come_within_two_percent_of_the_ideal() {
    for seed in 0..8 {
        for members in [2, 3, 5, 10, 16] {
            let mut world = World::new(seed, members, CLIENTS, clients(seed, members * 10_000));
            world.run(30);
            assert!(world.farthest() <= 0.02, "seed {seed}, {members} members: {}", world.farthest());
            let (moved, changes) = (world.moved, world.changes);
            world.run(20);
            assert_eq!((moved, changes), (world.moved, world.changes), "seed {seed}: even shares stay");
        }
    }
}

#[test]
fn a_thousand_members_stay_within_one_partition_and_rest() {
    let mut world = World::new(1, 1_000, CLIENTS, clients(1, 10_000_000));
    world.run(30);
    let counts: Vec<usize> = world.table.lives.keys().map(|name| world.table.of(name).len()).collect();
    assert!(counts.iter().all(|count| (1..=2).contains(count)), "{counts:?}");
    let moved = world.moved;
    world.run(10);
    assert_eq!(world.moved, moved, "whole partitions cannot be more even");
}

#[test]
fn a_thousand_members_of_two_sizes_get_shares_of_their_sizes() {
    let mut world = World::new(1, 1_000, CLIENTS, clients(1, 10_000_000));
    for number in 0..10 {
        *world.size.get_mut(&name(number)).unwrap() = 8.0;
    }
    world.run(30);
    for number in 0..10 {
        // An eighth of the others' measure would be 8 partitions; none has to give its only one.
        assert!(world.table.of(&name(number)).len() > 2, "{number}: {}", world.table.of(&name(number)).len());
    }
    let moved = world.moved;
    world.run(10);
    assert_eq!(world.moved, moved);
}

#[test]
fn a_small_machine_and_one_with_a_hot_partition_get_less() {
    for seed in 0..12 {
        let mut world = World::new(seed, 3, LOAD, vec![0.001; usize::from(PARTITIONS)]);
        *world.size.get_mut(&name(0)).unwrap() = 0.25;
        world.brings[world.table.of(&name(1))[7] as usize] = 0.1;
        world.noise = 0.05;
        let off = world.farthest();
        world.run(60);
        assert!(off > 0.5 && world.farthest() <= 0.15, "seed {seed}: {off}, then {}", world.farthest());
        assert!(world.moved <= 450, "seed {seed}: {} moved", world.moved);
    }
}

#[test]
fn measures_that_waver_around_even_shares_move_nothing() {
    for seed in 0..12 {
        let mut world = World::new(seed, 5, LOAD, vec![0.001; usize::from(PARTITIONS)]);
        world.noise = 0.1;
        world.run(120);
        assert_eq!((world.changes, world.moved), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_load_that_swings_moves_no_more_than_the_bound() {
    let mut world = World::new(3, 4, LOAD, vec![0.001; usize::from(PARTITIONS)]);
    for minute in 0..60 {
        *world.size.get_mut(&name(0)).unwrap() = if minute % 2 == 0 { 0.5 } else { 2.0 };
        world.run(1);
    }
    assert!(
        world.changes <= 60 && world.moved <= 60 * (PARTITIONS_PER_CHANGE + 4),
        "{} {}",
        world.changes,
        world.moved
    );
}

#[test]
fn no_partition_moves_again_before_the_others_of_its_member() {
    let mut world = World::new(5, 2, CLIENTS, vec![1.0; usize::from(PARTITIONS)]);
    let stayed = world.table.of(&name(0));
    for turn in 0..12 {
        let size = if turn % 2 == 0 { 2.0 } else { 0.5 };
        *world.size.get_mut(&name(0)).unwrap() = size;
        world.run(10);
    }
    let has_moved = |it: &u16| world.table.home(*it).is_some_and(|home| home.by.is_some());
    assert!(stayed.iter().all(has_moved), "all have moved once before one moves again and again");
}

#[test]
fn without_all_measures_nothing_changes() {
    let mut world = World::new(1, 2, CLIENTS, clients(1, 1_000));
    *world.size.get_mut(&name(0)).unwrap() = 4.0;
    let burdens = world.burdens();
    let mut look = |burdens: &BTreeMap<String, Burden>, seen: &Seen| {
        (0..14).any(|_| {
            world.now += PERIOD;
            world.weighing.look(world.now, &CLIENTS, &world.table, seen, burdens).is_some()
        })
    };
    let seen = world.seen.clone();
    let one: BTreeMap<String, Burden> = burdens.clone().into_iter().take(1).collect();
    assert!(!look(&one, &seen));
    let odd = burdens.keys().map(|name| (name.clone(), Burden { has: f64::NAN, wanted: 1.0 })).collect();
    assert!(!look(&odd, &seen));
    let mut leaves = seen.clone();
    leaves.adverts.get_mut(&name(1)).unwrap().leaving = true;
    assert!(!look(&burdens, &leaves));
    assert!(!look(&burdens, &Seen { may_balance: false, ..seen.clone() }));
    assert!(look(&burdens, &seen));
}

#[test]
fn a_newcomer_gets_a_share_and_a_dead_member_has_no_factor() {
    let mut world = World::new(2, 3, CLIENTS, clients(2, 100_000));
    *world.size.get_mut(&name(0)).unwrap() = 3.0;
    world.run(30);
    assert_eq!(world.table.factors.len(), 3);
    world.join(3);
    world.settle();
    assert!(world.table.of(&name(3)).len() > 150, "{}", world.table.of(&name(3)).len());
    world.run(30);
    assert!(world.farthest() <= 0.02, "{}", world.farthest());
    world.seen.members.remove(&name(0));
    world.size.remove(&name(0));
    world.settle();
    assert_eq!(world.table.factors.len(), 3);
    world.run(30);
    assert!(world.farthest() <= 0.02, "{}", world.farthest());
}

#[test]
fn a_newcomer_gets_no_more_than_its_share_and_a_step() {
    for seed in 0..4 {
        let mut world = World::new(seed, 10, CLIENTS, clients(seed, 100_000));
        world.run(30);
        world.join(10);
        let most = (0..12 * 40).map(|_| {
            world.period();
            world.table.of(&name(10)).len()
        });
        let most = most.max().unwrap();
        assert!((85..=105).contains(&most), "seed {seed}: {most} partitions of 1,024 / 11");
        assert!(world.farthest() <= 0.022, "seed {seed}: {}", world.farthest());
    }
}

#[test]
fn few_clients_move_nothing_however_they_lie() {
    for seed in 0..5 {
        for count in [1, 10, 30, 299] {
            let mut world = World::new(seed, 3, CLIENTS, clients(seed, count));
            for hour in 0..4 {
                world.brings = clients(seed + 1_000 * hour, count);
                world.run(30);
            }
            assert_eq!((world.changes, world.moved), (0, 0), "seed {seed}, {count} clients");
        }
    }
}

#[test]
fn clients_that_chance_deals_out_move_little() {
    let mut moved = 0;
    for seed in 0..10 {
        let mut world = World::new(seed, 3, CLIENTS, clients(seed, 600));
        for hour in 0..4 {
            world.brings = clients(seed + 1_000 * hour, 600);
            world.run(30);
        }
        moved += world.moved;
    }
    assert!(moved <= 40 * 8, "{moved} of 1,024 partitions, with 40 deals");
}

#[test]
fn factors_of_another_configuration_go_by_bounded_steps() {
    let mut world = World::new(2, 3, CLIENTS, clients(2, 100_000));
    *world.size.get_mut(&name(0)).unwrap() = 3.0;
    world.run(60);
    let before = world.table.of(&name(0)).len();
    assert!(before > 500, "{before}");
    world.weighing = Weighing::default();
    let mut changes = 0;
    for _ in 0..12 * 20 {
        world.now += PERIOD;
        world.seen.factors = world.weighing.relax(world.now, CLIENTS.pause, &world.table, &world.seen);
        if world.seen.factors.is_some() {
            changes += 1;
            world.moved_before = Some(world.moved);
        }
        world.step();
    }
    assert_eq!(world.table.factors, BTreeMap::new());
    assert!((341..=342).contains(&world.table.of(&name(0)).len()) && (3..=6).contains(&changes), "{changes}");
}

#[test]
fn any_measures_give_factors_within_bounds() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let members = 2 + (random.next() % 12) as usize;
        let mut world = World::new(seed, members, CLIENTS, vec![1.0; usize::from(PARTITIONS)]);
        for number in 0..members {
            world.seen.adverts.get_mut(&name(number)).unwrap().weight = Weight((random.next() % 1_200) as u16);
        }
        world.settle();
        for _ in 0..20 {
            let burden = |random: &mut Random| match random.next() % 6 {
                0 => 0.0,
                1 => 1e300,
                2 => 1e-300,
                _ => random.part() * 100.0,
            };
            let burdens = (0..members)
                .map(|number| (name(number), Burden { has: burden(&mut random), wanted: burden(&mut random) }))
                .collect();
            world.moved = 0;
            let next = (0..14).find_map(|_| {
                world.now += PERIOD;
                world.weighing.look(world.now, &CLIENTS, &world.table, &world.seen, &burdens)
            });
            world.seen.factors.clone_from(&next);
            world.settle();
            assert!(world.moved <= PARTITIONS_PER_CHANGE + members, "seed {seed}: {}", world.moved);
            let all = next.iter().flatten();
            assert!(all.clone().all(|(_, factor)| (Factor::MIN.0..=Factor::MAX.0).contains(&factor.0)), "seed {seed}");
            let placed: usize = world.table.lives.keys().map(|name| world.table.of(name).len()).sum();
            assert_eq!(placed, usize::from(PARTITIONS), "seed {seed}");
        }
    }
}
