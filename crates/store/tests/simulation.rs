//! Random batches of several writers over a disk that loses power, fails and tears. Every reported commit is present
//! after reopening, and the content is a prefix of the order of submission.
//!
//! `STORE_SIM_SEEDS=1000` runs more seeds, `STORE_SIM_FIRST=17` begins with another one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_random::SplitMix64;
use tidegate_store::operation::{delete, put};
use tidegate_store::{
    Durability, Failure, OpenError, Opened, ReadError, Settings, SimulatedDisk, Stepped, keep_all, open,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Random numbers that are the same in every run.
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.number()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// The submitted batches in order, and how far they are committed.
#[derive(Default)]
struct History {
    /// The state after each batch; the first is that before the first batch.
    states: Vec<Model>,
    /// Writer and sequence of each batch.
    batches: Vec<(u16, u64)>,
    sequences: [u64; WRITERS as usize],
}

const WRITERS: u16 = 3;
const KEYS: u64 = 60;

type Committed = Arc<Mutex<[u64; WRITERS as usize]>>;

impl History {
    fn batch(&mut self, random: &mut Random) -> (u16, u64, Vec<u8>) {
        let writer = random.below(u64::from(WRITERS)) as u16;
        self.sequences[usize::from(writer)] += 1;
        let sequence = self.sequences[usize::from(writer)];
        let mut state = self.states.last().unwrap().clone();
        let mut payload = Vec::new();
        for _ in 0..random.below(6) {
            let key = format!("key{:03}", random.below(KEYS)).into_bytes();
            if random.one_in(3) {
                delete(&mut payload, &key).unwrap();
                state.remove(&key);
            } else {
                let length = if random.one_in(20) { 3_000 } else { random.below(200) };
                let value = vec![random.next() as u8; length as usize];
                put(&mut payload, &key, &value).unwrap();
                state.insert(key, value);
            }
        }
        self.states.push(state);
        self.batches.push((writer, sequence));
        (writer, sequence, payload)
    }

    /// How many batches are certainly there.
    fn committed(&self, committed: &Committed) -> usize {
        let reported = committed.lock().unwrap();
        let last = self.batches.iter().rposition(|(writer, sequence)| *sequence <= reported[usize::from(*writer)]);
        last.map_or(0, |index| index + 1)
    }
}

fn settings(random: &mut Random) -> Settings {
    let relaxed = Durability::Relaxed { window: Duration::from_secs(1) };
    Settings {
        durability: if random.one_in(3) { relaxed } else { Durability::Commit },
        segment_bytes: 4096 * (2 + random.below(4)),
        merge_min_bytes: 0,
        merge_memory_bytes: 8192 * (1 + random.below(8)),
        min_free_bytes: 0,
        reserve_bytes: 20_000 * random.below(4),
        ..Settings::default()
    }
}

/// One life of a store. Its expected initial content is the last state of the history.
struct Life {
    store: Stepped,
    committed: Committed,
}

fn start(disk: &SimulatedDisk, settings: &Settings) -> Result<Life, OpenError> {
    let Opened { store, .. } = open(Arc::new(disk.clone()), settings.clone(), keep_all())?;
    let committed = Committed::default();
    let reported = Arc::clone(&committed);
    let commits = move |writer: u16, sequence: u64| {
        let mut reported = reported.lock().unwrap();
        assert!(reported[usize::from(writer)] < sequence, "sequences are reported once and ascend");
        reported[usize::from(writer)] = sequence;
    };
    Ok(Life { store: store.stepped(Box::new(commits)), committed })
}

fn contents(store: &Stepped) -> Model {
    let mut found = Model::new();
    let mut last: Option<Vec<u8>> = None;
    let read = store.for_each(&mut |key, value| {
        assert!(last.as_deref().is_none_or(|last| last < key), "ascending");
        last = Some(key.to_vec());
        found.insert(key.to_vec(), value.to_vec());
    });
    read.unwrap();
    found
}

/// Opens again, with the power going off now and then while it does. Says whether it did.
fn reopen(disk: &SimulatedDisk, settings: &Settings, random: &mut Random, seed: u64) -> (Life, bool) {
    let mut power_lost = disk.is_powerless();
    for _ in 0..8 {
        disk.restart();
        disk.heal();
        if random.one_in(3) {
            disk.lose_power_after(random.below(12));
        }
        match start(disk, settings) {
            Ok(life) if !disk.is_powerless() => {
                disk.keep_power();
                return (life, power_lost);
            }
            Ok(_) => {}
            Err(error) => assert!(disk.is_powerless(), "seed {seed}: {error}"),
        }
        power_lost = true;
    }
    disk.restart();
    disk.heal();
    (start(disk, settings).unwrap_or_else(|error| panic!("seed {seed}: {error}")), true)
}

/// All entries, unless a read fails.
fn loaded(store: &mut Stepped, random: &mut Random) -> Result<Model, ReadError> {
    let mut found = Model::new();
    let mut from = Vec::new();
    loop {
        if random.below(4) == 0 {
            store.forget_merged();
        }
        let page = store.load(&from, b"z", 1 + random.below(4_000) as usize)?;
        found.extend(page.entries);
        match page.next {
            Some(next) => from = next,
            None => return Ok(found),
        }
    }
}

fn disturb(disk: &SimulatedDisk, random: &mut Random) {
    let failures = [
        Failure::Write,
        Failure::Sync,
        Failure::ShortWrite,
        Failure::Rename,
        Failure::SyncDirectory,
        Failure::Sync,
        Failure::Read,
        Failure::Create,
        Failure::Remove,
        Failure::Open,
    ];
    match random.below(44) {
        index @ 0..10 => disk.fail(failures[index as usize], 1 + random.below(3) as u32),
        10 => disk.set_capacity(Some(random.below(200_000))),
        11 => disk.set_capacity(None),
        _ => {}
    }
}

fn run(seed: u64) {
    let mut random = Random(SplitMix64::new(seed));
    let settings = settings(&mut random);
    let disk = SimulatedDisk::new(seed);
    let mut state = Model::new();
    let (mut life, _) = reopen(&disk, &settings, &mut random, seed);
    for _ in 0..8 {
        let mut history = History { states: vec![state.clone()], ..History::default() };
        assert_eq!(contents(&life.store), state, "seed {seed}");
        let faults = random.one_in(2);
        if random.one_in(2) {
            disk.lose_power_after(random.below(150));
        }
        for _ in 0..random.below(120) {
            if faults {
                disturb(&disk, &mut random);
            }
            let (writer, sequence, payload) = history.batch(&mut random);
            // Deletions of acknowledged messages, for example, need not be committed at once.
            if random.one_in(2) {
                life.store.submit_unawaited(writer, sequence, payload).unwrap();
            } else {
                life.store.submit(writer, sequence, payload).unwrap();
            }
            act(&mut life, &mut random, &disk, &history, seed);
        }
        let lose_power = disk.is_powerless() || random.one_in(2);
        finish(&mut life, &disk, &mut random, &settings, lose_power);
        let certain = history.committed(&life.committed);
        drop(life);
        let power_lost;
        (life, power_lost) = reopen(&disk, &settings, &mut random, seed);
        let relaxed = settings.durability != Durability::Commit;
        let least = if relaxed && power_lost { 0 } else { certain };
        let found = contents(&life.store);
        let prefix = (least..history.states.len()).find(|index| history.states[*index] == found);
        let all = history.batches.len();
        let lesser = history.states.iter().rposition(|state| *state == found);
        assert!(
            prefix.is_some(),
            "seed {seed}: {certain} of {all} are certain, found the first {lesser:?}, {settings:?}"
        );
        state = found;
    }
}

/// Does some of the work of the threads.
fn act(life: &mut Life, random: &mut Random, disk: &SimulatedDisk, history: &History, seed: u64) {
    // Batches that are put off are committed with others, or when their time has come.
    let is_time = !life.store.may_wait() || random.one_in(8);
    if random.one_in(2) && is_time {
        life.store.step();
    }
    if random.one_in(20) {
        life.store.sync();
    }
    if random.one_in(3) {
        // A merge that fails gives up; the next call begins another one.
        let _ = life.store.merge(1 + random.below(40) as usize);
    }
    if random.one_in(50) {
        let _ = life.store.make_spare();
    }
    if random.one_in(40) {
        life.store.fill_reserve();
    }
    if random.one_in(30) {
        life.store.checkpoint();
    }
    if random.one_in(25) && !disk.is_powerless() {
        let certain = history.committed(&life.committed);
        // A load that fails gives up, and the next one begins again.
        let Ok(found) = loaded(&mut life.store, random) else { return };
        assert!(history.states[certain..].contains(&found), "seed {seed}: a load sees all earlier commits");
    }
}

/// Ends a life: by stopping, by the end of the process, or by power loss.
fn finish(life: &mut Life, disk: &SimulatedDisk, random: &mut Random, settings: &Settings, power_lost: bool) {
    if settings.durability != Durability::Commit && power_lost && random.one_in(2) {
        life.store.sync();
    }
    if power_lost {
        disk.lose_power();
    } else if random.one_in(2) {
        disk.heal();
        while !life.store.step() && !disk.is_powerless() {}
        life.store.end();
    }
}

#[test]
fn no_commit_is_lost_and_the_content_is_a_prefix() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (first, seeds): (u64, u64) = (number("STORE_SIM_FIRST", 0), number("STORE_SIM_SEEDS", 60));
    for seed in first..first + seeds {
        run(seed);
    }
}
