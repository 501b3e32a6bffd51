//! The store as the broker uses it: with its threads, over the simulated disk and a real directory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tidegate_store::operation::{delete, put};
use tidegate_store::{
    Disk, Durability, Failure, Loaded, ReadError, Reader, Running, Settings, SimulatedDisk, State, Stepped,
    SubmitError, keep_all, open,
};

/// Longer than any healthy machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

fn settings() -> Settings {
    Settings { segment_bytes: 65_536, merge_min_bytes: 100_000, min_free_bytes: 0, ..Settings::default() }
}

fn start(disk: &Arc<dyn Disk>, settings: Settings) -> (Running, Receiver<(u16, u64)>) {
    let store = open(Arc::clone(disk), settings, keep_all()).unwrap().store;
    let (sender, receiver) = channel();
    let commits = move |writer: u16, sequence: u64| {
        let _ = sender.send((writer, sequence));
    };
    (store.start(Box::new(commits)).unwrap(), receiver)
}

fn wait(commits: &Receiver<(u16, u64)>, writer: u16, sequence: u64) {
    while commits.recv_timeout(PATIENCE).unwrap() != (writer, sequence) {}
}

fn load(reader: &Reader, from: &[u8], to: &[u8], max_bytes: usize) -> Result<Loaded, ReadError> {
    let (sender, receiver) = channel();
    reader.load(from.to_vec(), to.to_vec(), max_bytes, Box::new(move |loaded| drop(sender.send(loaded))));
    receiver.recv_timeout(PATIENCE).unwrap()
}

fn one(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut batch = Vec::new();
    put(&mut batch, key, value).unwrap();
    batch
}

#[test]
fn batches_of_several_writers_are_found_again() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let (running, commits) = start(&disk, settings());
    let mut model = BTreeMap::new();
    let writers: Vec<_> = (0..3).map(|number| running.writer(number)).collect();
    for sequence in 1..=2_000_u64 {
        for (number, writer) in writers.iter().enumerate() {
            let key = format!("{number}/{:03}", sequence % 300).into_bytes();
            let mut batch = Vec::new();
            if sequence % 7 == 0 {
                delete(&mut batch, &key).unwrap();
                model.remove(&key);
            } else {
                put(&mut batch, &key, &sequence.to_le_bytes()).unwrap();
                model.insert(key, sequence.to_le_bytes().to_vec());
            }
            writer.submit(sequence, batch).unwrap();
        }
    }
    let mut reported = [0; 3];
    while reported != [2_000; 3] {
        let (writer, sequence) = commits.recv_timeout(PATIENCE).unwrap();
        assert!(reported[usize::from(writer)] < sequence);
        reported[usize::from(writer)] = sequence;
    }
    let all = load(&running.reader(), b"", b"z", usize::MAX).unwrap();
    assert!(all.entries.into_iter().collect::<BTreeMap<_, _>>() == model && all.next.is_none());
    assert_eq!(running.status().pending_bytes(), 0);
    assert_eq!(running.status().operations(), 6_000);
    running.stop();
    let opened = open(disk, settings(), keep_all()).unwrap();
    assert!(opened.report.clean);
    let mut found = BTreeMap::new();
    opened.store.for_each(&mut |key, value| drop(found.insert(key.to_vec(), value.to_vec()))).unwrap();
    assert!(found == model);
}

#[test]
fn a_load_comes_in_pages_and_sees_earlier_commits() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let (running, commits) = start(&disk, settings());
    let (writer, reader) = (running.writer(0), running.reader());
    let mut sequence = 0;
    for key in [b"a1", b"a2", b"a3", b"b1"] {
        sequence += 1;
        writer.submit(sequence, one(key, &[7; 50])).unwrap();
        wait(&commits, 0, sequence);
        let seen = load(&reader, key, b"c", 1_000).unwrap();
        assert_eq!(seen.entries.len(), 1);
    }
    let page = load(&reader, b"a", b"b", 110).unwrap();
    assert_eq!((page.entries.len(), page.next.as_deref()), (2, Some(&b"a3"[..])));
    let page = load(&reader, &page.next.unwrap(), b"b", 110).unwrap();
    assert_eq!((page.entries.len(), page.next), (1, None));
    // One entry is given however small the page is.
    assert_eq!(load(&reader, b"a", b"b", 0).unwrap().entries.len(), 1);
    assert_eq!(load(&reader, b"x", b"b", 100).unwrap(), Loaded::default());
}

#[test]
fn a_barrier_is_committed_when_all_before_it_are() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let (running, commits) = start(&disk, settings());
    let writer = running.writer(4);
    writer.submit(1, Vec::new()).unwrap();
    wait(&commits, 4, 1);
    assert_eq!(running.status().written_bytes(), 0);
    writer.submit(2, one(b"k", b"v")).unwrap();
    writer.submit(3, Vec::new()).unwrap();
    wait(&commits, 4, 3);
    assert_eq!(running.status().operations(), 1);
}

#[test]
fn a_malformed_batch_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let (running, _commits) = start(&disk, settings());
    let writer = running.writer(0);
    assert!(matches!(writer.submit(1, vec![9, 9]), Err(SubmitError::Malformed(_))));
    let reader = running.reader();
    running.stop();
    assert_eq!(writer.submit(1, Vec::new()), Err(SubmitError::Stopped));
    assert!(matches!(load(&reader, b"", b"z", 1), Err(ReadError::Stopped)));
}

#[test]
fn a_disk_that_fails_for_a_while_delays_commits_and_loses_none() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    for durability in [Durability::Commit, Durability::Relaxed { window: Duration::from_millis(1) }] {
        let (running, commits) = start(&disk, Settings { durability, ..settings() });
        let writer = running.writer(0);
        for sequence in 1..=300_u64 {
            match sequence % 50 {
                10 => simulated.fail(Failure::Sync, 2),
                20 => simulated.fail(Failure::Write, 1),
                30 => simulated.fail(Failure::ShortWrite, 1),
                _ => {}
            }
            writer.submit(sequence, one(&sequence.to_be_bytes(), &[1; 100])).unwrap();
            wait(&commits, 0, sequence);
        }
        assert!(running.status().failures() > 0 && running.status().last_error().is_some());
        running.stop();
        let mut found = 0;
        let store = open(Arc::clone(&disk), settings(), keep_all()).unwrap().store;
        store.for_each(&mut |_, _| found += 1).unwrap();
        assert_eq!(found, 300);
    }
}

#[test]
fn an_idle_store_is_merged_for_a_quick_start() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let settings = Settings {
        merge_min_bytes: 1 << 30,
        checkpoint_after: Duration::from_millis(1),
        checkpoint_min_bytes: 5_000,
        ..settings()
    };
    let (running, commits) = start(&disk, settings.clone());
    let writer = running.writer(0);
    for sequence in 1..=40_u64 {
        writer.submit(sequence, one(&(sequence % 10).to_be_bytes(), &[1; 200])).unwrap();
        wait(&commits, 0, sequence);
    }
    until(|| running.status().journal_bytes() < 5_000);
    assert!(running.status().merges() > 0 && running.status().failed_merges() == 0);
    running.stop();
    let report = open(disk, settings, keep_all()).unwrap().report;
    // It may have been merged before the last of it came, which is then too little to be merged for.
    assert!(report.bytes < 5_000, "{report:?}");
    assert_eq!(report.table_entries, 10, "{report:?}");
}

#[test]
fn a_fast_growing_journal_slows_writers_and_keeps_its_limit() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let settings =
        Settings { segment_bytes: 16_384, merge_min_bytes: 1 << 30, replay_max_bytes: 100_000, ..settings() };
    let (running, commits) = start(&disk, settings.clone());
    let writer = running.writer(0);
    for sequence in 1..=4_000_u64 {
        writer.submit(sequence, one(&(sequence % 10).to_be_bytes(), &[1; 200])).unwrap();
        if sequence % 10 == 0 {
            wait(&commits, 0, sequence);
            // One group may be on its way when the limit is reached.
            assert!(running.status().journal_bytes() < 100_000 + 16_384);
        }
    }
    assert!(running.status().merges() > 0);
    running.stop();
    let opened = open(disk, settings, keep_all()).unwrap();
    assert!(opened.report.bytes < 100_000 + 16_384, "{:?}", opened.report);
}

/// Bytes of the table of [`with_table`], about; the tests put more than an eighth of it into the journal.
const TABLE_BYTES: usize = 1_000_000;

fn put_all(store: &mut Stepped, numbers: std::ops::Range<u64>) {
    for number in numbers {
        store.submit(0, number, one(&number.to_be_bytes(), &[1; 100])).unwrap();
        while !store.step() {}
    }
}

/// A store with a large table and an empty journal.
fn with_table(disk: &Arc<dyn Disk>, settings: &Settings) -> Stepped {
    let mut store = open(Arc::clone(disk), settings.clone(), keep_all()).unwrap().store.stepped(Box::new(|_, _| {}));
    for number in 0..TABLE_BYTES as u64 / 4_000 {
        store.submit(1, number + 1, one(&[b"table", &number.to_be_bytes()[..]].concat(), &[7; 4_000])).unwrap();
        while !store.step() {}
    }
    store.checkpoint();
    while store.merge(1_000).unwrap() {}
    store.wants_merge();
    assert!(store.status().table_bytes() >= TABLE_BYTES as u64);
    store
}

#[test]
fn an_index_of_loads_beyond_its_limit_begins_a_merge() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let settings = Settings { merge_memory_bytes: 65_536, ..settings() };
    drop(with_table(&disk, &settings));
    let (running, commits) = start(&disk, settings);
    let (writer, status) = (running.writer(0), running.status());
    for sequence in 1..=2_000_u64 {
        writer.submit(sequence, one(&sequence.to_be_bytes(), &[1; 100])).unwrap();
        wait(&commits, 0, sequence);
    }
    assert_eq!((status.merges(), status.index_bytes()), (0, 0));
    load(&running.reader(), b"\0", b"\x01", 1_000).unwrap();
    assert!(status.index_bytes() > 65_536, "{}", status.index_bytes());
    until(|| status.merges() > 0);
    running.stop();
}

#[test]
fn the_index_of_merged_files_is_given_back() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut store = with_table(&disk, &Settings { merge_memory_bytes: 65_536, ..settings() });
    put_all(&mut store, 1..500);
    store.load(b"\0", b"\x01", 1_000).unwrap();
    assert!(!store.wants_merge(), "the index is small");
    put_all(&mut store, 500..2_000);
    store.load(b"\0", b"\x01", 1_000).unwrap();
    let large = store.status().index_bytes();
    assert!(large > 65_536 && store.wants_merge());
    store.load(b"\0", b"\x01", 1_000).unwrap();
    assert!(!store.wants_merge(), "once for each merge");
    while store.merge(100).unwrap() {}
    assert_eq!(store.status().index_bytes(), large);
    store.forget_merged();
    let left = store.status().index_bytes();
    assert!(0 < left && left < 65_536, "the file that is written to: {left}");
    assert_eq!(store.load(b"\0", b"\x01", usize::MAX).unwrap().entries.len(), 1_999);
}

#[test]
fn a_large_index_is_dropped_where_a_merge_is_not_worth_it() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut store = with_table(&disk, &Settings { merge_memory_bytes: 65_536, ..settings() });
    put_all(&mut store, 1..800);
    for loads in 1..4 {
        assert_eq!(store.load(b"\0", b"\x01", usize::MAX).unwrap().entries.len(), 799);
        assert!(!store.wants_merge(), "one file is closed, and the table is much larger");
        assert_eq!((store.status().index_bytes(), store.status().loads()), (0, loads));
    }
    let is_asked = |_: &u32| {
        store.load(b"\0", b"\x01", usize::MAX).unwrap();
        store.wants_merge()
    };
    assert!((0..1_000).find(is_asked).is_some(), "loads that have read as much as a merge reads ask for one");
}

/// Fills a store beyond its limit with keys of its own each; returns how many.
fn fill(running: &Running, commits: &Receiver<(u16, u64)>) -> u64 {
    let writer = running.writer(0);
    let mut sequence = 0;
    while !running.status().is_full() {
        sequence += 1;
        assert!(sequence < 1_000, "the limit is reached");
        writer.submit(sequence, one(&sequence.to_be_bytes(), &[7; 4_000])).unwrap();
        wait(commits, 0, sequence);
    }
    sequence
}

/// Deletes all that `fill` has put.
fn drain(running: &Running, commits: &Receiver<(u16, u64)>, keys: u64) {
    let writer = running.writer(0);
    for key in 1..=keys {
        let mut batch = Vec::new();
        delete(&mut batch, &key.to_be_bytes()).unwrap();
        writer.submit(keys + key, batch).unwrap();
    }
    wait(commits, 0, 2 * keys);
}

#[test]
fn a_full_store_frees_itself_after_deletes() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let limited = Settings { max_bytes: 1_000_000, min_free_bytes: 1_000_000, ..settings() };
    // Other reasons for a merge are off, so only the limit can trigger one.
    let limited = Settings { checkpoint_after: PATIENCE * 10, ..limited };
    let limited = Settings { merge_min_bytes: 100_000_000, replay_max_bytes: 1_000_000_000, ..limited };
    let (running, commits) = start(&disk, limited);
    for _ in 0..2 {
        let keys = fill(&running, &commits);
        drain(&running, &commits, keys);
        until(|| !running.status().is_full());
    }
}

#[test]
fn a_drained_full_store_is_free_after_a_restart() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    // Without a limit no merge frees space, so that the table still has all dead entries at the second start.
    let unlimited = Settings { merge_min_bytes: 100_000_000, replay_max_bytes: 1_000_000_000, ..settings() };
    let unlimited = Settings { checkpoint_after: PATIENCE * 10, ..unlimited };
    let limited = Settings { max_bytes: 1_000_000, ..unlimited.clone() };
    let (running, commits) = start(&disk, unlimited);
    let writer = running.writer(0);
    for sequence in 1..=300 {
        writer.submit(sequence, one(&sequence.to_be_bytes(), &[7; 4_000])).unwrap();
        wait(&commits, 0, sequence);
    }
    running.ask_for_merge();
    until(|| running.status().table_bytes() > 1_000_000);
    drain(&running, &commits, 300);
    running.stop();
    let (running, _) = start(&disk, limited);
    until(|| !running.status().is_full());
    assert_eq!((running.status().merges(), running.status().batches()), (1, 0));
}

/// Waits until the condition holds.
fn until(so: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !so() {
        assert!(begin.elapsed() < PATIENCE, "it never came to be so");
        std::thread::yield_now();
    }
}

#[test]
fn a_fenced_store_reports_no_commit_and_still_reads() {
    let simulated = SimulatedDisk::new(9);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let (running, commits) = start(&disk, settings());
    let writer = running.writer(0);
    writer.submit(1, one(b"a", b"1")).unwrap();
    wait(&commits, 0, 1);
    simulated.fail(Failure::Fence, 1);
    let status = running.status();
    for sequence in 2..50 {
        writer.submit(sequence, one(b"a", b"2")).unwrap();
    }
    // The thread ends its work with the first refusal, though the disk would take more.
    let end = std::time::Instant::now() + PATIENCE;
    while !matches!(status.state(), State::Fenced(_)) {
        assert!(std::time::Instant::now() < end, "{:?}", status.state());
        std::thread::yield_now();
    }
    assert!(status.is_full(), "nothing new is taken");
    assert_eq!(load(&running.reader(), b"", b"z", usize::MAX).unwrap().entries, [(b"a".to_vec(), b"1".to_vec())]);
    running.stop();
    assert_eq!(commits.try_iter().count(), 0, "no commit is reported after the fence");
    assert!(matches!(status.state(), State::Fenced(_)), "it does not end");
}
