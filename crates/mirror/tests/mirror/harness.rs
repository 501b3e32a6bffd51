//! Shared parts of the tests: directories, a blocking bus, stores, random numbers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_bus::{Address, Append, Bounds, Bus, BusError, Done, LogPartition, LogSpec, Position, Record, Settings};
use tidegate_mirror::{MirrorDisk, MirrorError, OpenedMirror};
use tidegate_random::SplitMix64;
use tidegate_store::operation::{delete, put};
use tidegate_store::{Disk, Opened, Settings as StoreSettings, Stepped, keep_all};

/// Longest wait for anything: a test that gets there has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A directory that is removed with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("tidegate-mirror-{}-{number}", std::process::id())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn embedded() -> Bus {
    Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap()
}

pub(crate) fn ask<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> T {
    let (sender, outcome) = channel();
    call(Box::new(move |result| drop(sender.send(result)))).unwrap();
    outcome.recv_timeout(PATIENCE).unwrap().unwrap()
}

pub(crate) fn place(node: &str) -> LogPartition {
    LogPartition::new(tidegate_mirror::log_of(node).unwrap(), 0)
}

pub(crate) fn bounds(bus: &Bus, node: &str) -> Bounds {
    ask(|done| bus.bounds(&place(node), done))
}

/// All records that a log has.
pub(crate) fn records(bus: &Bus, node: &str) -> Vec<Record> {
    let end = bounds(bus, node).next;
    let mut reader = bus.read(&place(node), Position::START, Arc::new(|| {})).unwrap();
    let mut records = Vec::new();
    loop {
        let taken = reader.take(usize::MAX).unwrap();
        records.extend(taken.records);
        if taken.next >= end {
            return records;
        }
    }
}

/// A bus whose log of a node has these records.
pub(crate) fn bus_with(node: &str, records: &[Record]) -> Bus {
    let bus = embedded();
    ask(|done| bus.create(LogSpec::fenced(place(node).log, 1), done));
    let epoch = ask(|done| bus.own(&place(node), done));
    for record in records {
        ask(|done| bus.append(&place(node), Append::new(record.payload.clone()).by(epoch), done));
    }
    bus
}

pub(crate) fn mirror_settings(node: &str, directory: &Path) -> tidegate_mirror::Settings {
    tidegate_mirror::Settings { local_sync: false, ..tidegate_mirror::Settings::new(node, directory).unwrap() }
}

/// Opens a mirror once its directory is free. A process started by another test holds the lock of this directory until
/// it executes its own program.
pub(crate) fn mirror(bus: &Bus, node: &str, directory: &Path) -> Result<OpenedMirror, MirrorError> {
    let begun = Instant::now();
    loop {
        match tidegate_mirror::open(bus, mirror_settings(node, directory)) {
            Err(MirrorError::Locked { .. }) if begun.elapsed() < PATIENCE => std::thread::yield_now(),
            opened => return opened,
        }
    }
}

pub(crate) fn store_settings() -> StoreSettings {
    StoreSettings {
        segment_bytes: 16_384,
        merge_min_bytes: 0,
        merge_memory_bytes: 24_000,
        min_free_bytes: 0,
        ..StoreSettings::default()
    }
}

/// The last commit reported to writer 0.
pub(crate) type Committed = Arc<Mutex<u64>>;

/// A store that is driven by hand.
pub(crate) fn stepped(disk: &Arc<MirrorDisk>, settings: StoreSettings) -> (Stepped, Committed) {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let Opened { store, .. } = tidegate_store::open(disk, settings, keep_all()).unwrap();
    let committed = Committed::default();
    let reported = Arc::clone(&committed);
    (store.stepped(Box::new(move |_: u16, sequence: u64| *reported.lock().unwrap() = sequence)), committed)
}

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn contents(store: &Stepped) -> Model {
    let mut found = Model::new();
    store.for_each(&mut |key, value| drop(found.insert(key.to_vec(), value.to_vec()))).unwrap();
    found
}

/// The content that a log gives an empty directory.
pub(crate) fn contents_on(bus: &Bus, node: &str) -> Model {
    let folder = Folder::new();
    let opened = mirror(bus, node, folder.path()).unwrap();
    contents(&stepped(&opened.disk, store_settings()).0)
}

/// Random numbers that are the same in every run.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.number()
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// A batch, and its effect on a model.
pub(crate) fn batch(random: &mut Random, model: &mut Model) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..=random.below(6) {
        let key = format!("key{:03}", random.below(60)).into_bytes();
        if random.one_in(3) {
            delete(&mut payload, &key).unwrap();
            model.remove(&key);
        } else {
            let length = if random.one_in(20) { 3_000 } else { random.below(200) };
            // The mirror leaves out zeros.
            let byte = if random.one_in(2) { 0 } else { random.next() as u8 };
            let value = vec![byte; length as usize];
            put(&mut payload, &key, &value).unwrap();
            model.insert(key, value);
        }
    }
    payload
}
