//! Random work, and a log cut at any point: all commits confirmed by then are present, and the content is a prefix.
//!
//! `MIRROR_SEEDS=1000` runs more seeds, `MIRROR_FIRST=17` begins with another one.

use std::sync::Arc;

use tidegate_bus::{LogSpec, Position, Record};
use tidegate_store::Stepped;

use crate::harness::{
    Folder, Model, Random, ask, batch, bounds, bus_with, contents, embedded, mirror, mirror_settings, place, stepped,
    store_settings,
};

/// How it stood after a step.
struct Moment {
    /// The log had this end, and no position below it.
    next: Position,
    first: Position,
    /// Batches that were reported as committed.
    committed: u64,
}

struct Life {
    states: Vec<Model>,
    moments: Vec<Moment>,
    all: Vec<Record>,
}

fn act(store: &mut Stepped, random: &mut Random) {
    if random.one_in(2) {
        store.step();
    }
    if random.one_in(3) {
        let _ = store.merge(1 + random.below(60) as usize).unwrap();
    }
    if random.one_in(40) {
        store.make_spare().unwrap();
    }
    if random.one_in(30) {
        store.checkpoint();
    }
}

/// Some lives of a store, each on the copy of the one before or on none.
fn live(seed: u64) -> Life {
    let (bus, folder, mut random) = (embedded(), Folder::new(), Random::new(seed));
    let mut life = Life { states: vec![Model::new()], moments: Vec::new(), all: Vec::new() };
    ask(|done| bus.create(LogSpec::fenced(place("a").log, 1), done));
    // It is given records before they can be trimmed.
    let mut tail = bus.read(&place("a"), Position::START, Arc::new(|| {})).unwrap();
    let mut count = 0;
    for _ in 0..3 {
        if random.one_in(2) {
            let _ = std::fs::remove_dir_all(folder.path());
        }
        let settings = tidegate_mirror::Settings {
            chunk_bytes: 4_096,
            index_after_bytes: 20_000 + random.below(200_000),
            max_dead_bytes: 20_000 + random.below(200_000),
            ..mirror_settings("a", folder.path())
        };
        let opened = tidegate_mirror::open(&bus, settings).unwrap();
        let (mut store, committed) = stepped(&opened.disk, store_settings());
        assert!(contents(&store) == *life.states.last().unwrap(), "seed {seed}");
        *committed.lock().unwrap() = count;
        for _ in 0..40 + random.below(80) {
            count += 1;
            let mut state = life.states.last().unwrap().clone();
            let payload = batch(&mut random, &mut state);
            store.submit(0, count, payload).unwrap();
            life.states.push(state);
            act(&mut store, &mut random);
            let found = bounds(&bus, "a");
            life.all.extend(tail.take(usize::MAX).unwrap().records);
            let committed = *committed.lock().unwrap();
            life.moments.push(Moment { next: found.next, first: found.first, committed });
        }
        while !store.step() {}
        if random.one_in(2) {
            store.end();
            opened.disk.close(crate::harness::PATIENCE);
        }
    }
    life
}

fn check(seed: u64, life: &Life, end: Position) {
    let index = life.moments.partition_point(|moment| moment.next <= end);
    let Some(before) = index.checked_sub(1).and_then(|index| life.moments.get(index)) else { return };
    let kept: Vec<Record> =
        life.all.iter().filter(|record| (before.first..end).contains(&record.position)).cloned().collect();
    let bus = bus_with("a", &kept);
    let folder = Folder::new();
    let opened = mirror(&bus, "a", folder.path());
    let opened = opened.unwrap_or_else(|error| panic!("seed {seed}, cut at {end}: {error}"));
    let (store, _) = stepped(&opened.disk, store_settings());
    let found = contents(&store);
    let least = before.committed as usize;
    let is_prefix = life.states[least..].contains(&found);
    let lesser = life.states.iter().rposition(|state| *state == found);
    assert!(is_prefix, "seed {seed}, cut at {end}: {least} batches are confirmed, found the first {lesser:?}");
}

#[test]
fn a_log_cut_anywhere_has_all_commits_and_a_prefix() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, seeds): (u64, u64) = (number("MIRROR_FIRST", 0), number("MIRROR_SEEDS", 6));
    for seed in first..first + seeds {
        let life = live(seed);
        let mut random = Random::new(seed ^ 0x5555);
        let last = life.all.last().unwrap().position;
        for _ in 0..25 {
            check(seed, &life, Position(random.below(last.0 + 2)));
        }
        check(seed, &life, last.next());
    }
}
