//! A running store whose disk fails or is full, and how it frees space.

use super::*;

#[test]
fn a_failed_sync_is_never_repeated_and_loses_nothing() {
    let disk = SimulatedDisk::new(3);
    let mut store = stepped(&disk);
    write(&mut store, 0..5);
    let files = names(&disk, "journal-");
    let mut batch = Vec::new();
    put(&mut batch, &key(5), &[5; 100]).unwrap();
    store.submit(0, 6, batch).unwrap();
    disk.fail(Failure::Sync, 1);
    store.step();
    assert!(matches!(store.status().state(), State::Failing(_)));
    assert!(store.status().is_full());
    assert_eq!(store.status().batches(), 5);
    store.step();
    assert_eq!((store.status().state(), store.status().batches()), (State::Ok, 6));
    assert!(names(&disk, "journal-").len() > files.len(), "another file was begun");
    drop(store);
    disk.lose_power();
    disk.restart();
    assert_eq!(contents(&opened(&disk).unwrap().store), entries(0..6));
}

#[test]
fn a_full_disk_holds_batches_back_until_there_is_room() {
    let disk = SimulatedDisk::new(3);
    let mut store = stepped(&disk);
    write(&mut store, 0..5);
    disk.set_capacity(Some(0));
    let mut batch = Vec::new();
    put(&mut batch, &key(5), &[5; 100]).unwrap();
    store.submit(0, 6, batch).unwrap();
    store.step();
    store.step();
    assert_eq!((store.status().state(), store.status().batches()), (State::Full, 5));
    disk.set_capacity(None);
    store.step();
    assert_eq!((store.status().state(), store.status().batches()), (State::Ok, 6));
    drop(store);
    disk.restart();
    assert_eq!(contents(&opened(&disk).unwrap().store), entries(0..6));
}

#[test]
fn beyond_its_limit_a_store_waits_until_a_merge_gives_room() {
    let disk = SimulatedDisk::new(3);
    let limited = Settings { max_bytes: 40_000, ..settings() };
    let opened = open(Arc::new(disk.clone()), limited, keep_all()).unwrap();
    let mut store = opened.store.stepped(Box::new(|_: u16, _: u64| {}));
    // The same few keys again and again, so that almost everything is dead.
    let mut sequence = 0;
    while store.status().state() == State::Ok {
        sequence += 1;
        assert!(sequence < 1_000, "the limit is reached");
        let mut batch = Vec::new();
        put(&mut batch, &key(sequence % 5), &[7; 100]).unwrap();
        store.submit(0, sequence, batch).unwrap();
        store.step();
    }
    assert_eq!((store.status().state(), store.status().batches()), (State::Full, sequence - 1));
    while store.merge(1_000).unwrap() {}
    store.step();
    assert_eq!((store.status().state(), store.status().batches()), (State::Ok, sequence));
    assert!(!store.status().is_full());
}

#[test]
fn deleted_entries_free_their_space() {
    let disk = SimulatedDisk::new(3);
    let mut store = stepped(&disk);
    write(&mut store, 0..1_000);
    for index in 0..1_000 {
        let mut batch = Vec::new();
        delete(&mut batch, &key(index)).unwrap();
        store.submit(0, 2_000 + index, batch).unwrap();
        store.step();
    }
    write(&mut store, 0..200);
    while store.merge(1_000).unwrap() {}
    assert!(store.status().store_bytes() < 60_000, "{}", store.status().store_bytes());
}

#[test]
fn refused_entries_are_not_visited_and_gone_after_a_merge() {
    let sweep: SweepFactory = Arc::new(|| Box::new(|key: &[u8], _: &[u8]| key.last() != Some(&b'7')));
    let disk = SimulatedDisk::new(3);
    let opened = open(Arc::new(disk.clone()), settings(), Arc::clone(&sweep)).unwrap();
    let mut store = opened.store.stepped(Box::new(|_: u16, _: u64| {}));
    write(&mut store, 0..300);
    let mut visited = 0;
    store.for_each(&mut |_, _| visited += 1).unwrap();
    assert_eq!(visited, 270);
    while store.merge(100).unwrap() {}
    drop(store);
    let looked: Arc<dyn Disk> = Arc::new(disk.clone());
    let of_one_kind = |stays_in_memory| EntryKind { name: "entries", stays_in_memory };
    let report = stats(&looked, &|key, _| of_one_kind(key.last() == Some(&b'3'))).unwrap();
    assert_eq!(report.kinds.len(), 1);
    assert!(report.table_entries < report.live(), "{report:?}");
    assert!(report.live() < 300);
    let row = report.kinds[0].1.longest_row;
    assert_eq!(row.entries, report.live());
    assert_eq!(row.bytes, report.kinds[0].1.key_bytes + report.kinds[0].1.value_bytes);
    let in_memory = report.kinds[0].1.in_memory;
    assert!((1..=row.entries).contains(&in_memory.entries) && in_memory.bytes <= row.bytes, "{report:?}");
    let last = |key: &[u8], _: &[u8]| {
        let name = if key.last().is_some_and(|byte| byte % 2 == 0) { "even" } else { "odd" };
        EntryKind { name, stays_in_memory: false }
    };
    let rows = stats(&looked, &last).unwrap().kinds.into_iter().map(|(_, kind)| kind.longest_row.entries);
    assert!(rows.max().unwrap() < report.live(), "another kind ends a row");
}

const RESERVE: u64 = 4 * 1024 * 1024;

/// A store with a reserve on a disk that another program has filled to the last byte.
fn store_on_a_filled_disk() -> (SimulatedDisk, Stepped) {
    let disk = SimulatedDisk::new(3);
    let mut store = with_reserve(&disk, RESERVE).unwrap();
    write(&mut store, 0..5);
    store.fill_reserve();
    fill(&disk);
    (disk, store)
}

fn with_reserve(disk: &SimulatedDisk, reserve_bytes: u64) -> Result<Stepped, OpenError> {
    let settings = Settings { reserve_bytes, ..settings() };
    let opened = open(Arc::new(disk.clone()), settings, keep_all())?;
    Ok(opened.store.stepped(Box::new(|_: u16, _: u64| {})))
}

fn fill(disk: &SimulatedDisk) {
    disk.set_capacity(Some(u64::MAX));
    let used = u64::MAX - disk.free_space().unwrap();
    disk.set_capacity(Some(used));
}

#[test]
fn a_filled_disk_lets_a_store_with_a_reserve_go_on() {
    let (disk, mut store) = store_on_a_filled_disk();
    assert!(!store.status().is_full());
    write(&mut store, 5..10);
    let status = store.status();
    assert_eq!((status.batches(), status.state()), (10, State::Ok));
    assert!(status.is_full() && status.reserve_missing() > 0, "nothing new is taken");
    drop(store);
    disk.restart();
    fill(&disk);
    let mut store = with_reserve(&disk, RESERVE).unwrap();
    assert!(store.status().is_full());
    write(&mut store, 10..15);
    disk.set_capacity(None);
    store.fill_reserve();
    assert!(!store.status().is_full());
    drop(store);
    disk.restart();
    assert_eq!(contents(&opened(&disk).unwrap().store), entries(0..15));
}

#[test]
fn a_reserve_that_is_used_up_leaves_a_full_store() {
    let (disk, mut store) = store_on_a_filled_disk();
    let value = vec![7; 100_000];
    let mut sequence = 5;
    while store.status().state() == State::Ok {
        sequence += 1;
        assert!(sequence < 100, "the reserve ends");
        let mut batch = Vec::new();
        put(&mut batch, b"large", &value).unwrap();
        store.submit(0, sequence, batch).unwrap();
        store.step();
    }
    assert_eq!((store.status().state(), store.status().batches()), (State::Full, sequence - 1));
    disk.set_capacity(None);
    store.step();
    store.fill_reserve();
    assert!(!store.status().is_full());
}

#[test]
fn a_reserve_is_not_made_whole_while_writes_fail() {
    let disk = SimulatedDisk::new(3);
    let mut store = with_reserve(&disk, RESERVE).unwrap();
    store.fill_reserve();
    // The disk names room that it does not give, as under a quota.
    disk.fail(Failure::ShortWrite, u32::MAX);
    let mut batch = Vec::new();
    put(&mut batch, b"key", b"value").unwrap();
    store.submit(0, 1, batch).unwrap();
    store.step();
    let used_up = (State::Full, RESERVE);
    assert_eq!((store.status().state(), store.status().reserve_missing()), used_up);
    store.fill_reserve();
    assert_eq!(store.status().reserve_missing(), RESERVE, "the next attempt would take it again");
    disk.heal();
    store.step();
    store.fill_reserve();
    assert!(!store.status().is_full());
    assert_eq!(store.status().batches(), 1);
}

#[test]
fn a_merge_leaves_half_of_the_reserve_to_the_journal() {
    let (disk, mut store) = store_on_a_filled_disk();
    store.checkpoint();
    let missing = store.status().reserve_missing();
    fill(&disk);
    assert!(store.merge(1_000).is_err());
    assert_eq!(store.status().reserve_missing(), RESERVE / 2);
    assert!(missing < RESERVE / 2);
    while store.merge(1_000).unwrap() {}
    assert_eq!(store.status().table_entries(), 5);
    write(&mut store, 5..10);
}

#[test]
fn a_reserve_follows_its_setting_and_is_not_made_without_room() {
    let disk = SimulatedDisk::new(3);
    for (wanted, length) in [(RESERVE, Some(RESERVE)), (1_000, Some(1_000)), (0, None)] {
        with_reserve(&disk, wanted).unwrap().fill_reserve();
        disk.restart();
        assert_eq!(disk.contents("RESERVE").map(|bytes| bytes.len() as u64), length);
    }
    disk.set_capacity(Some(100_000));
    let mut store = with_reserve(&disk, RESERVE).unwrap();
    store.fill_reserve();
    assert!(disk.contents("RESERVE").is_none() && !store.status().is_full());
}
