//! Two processes of one name: the older one can confirm no more commits.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};

use tidegate_bus::Bus;
use tidegate_mirror::{Lost, MirrorDisk, MirrorError};
use tidegate_store::operation::put;
use tidegate_store::{State, Stepped};

use crate::harness::{
    Committed, Folder, PATIENCE, contents, embedded, mirror, mirror_settings, place, stepped, store_settings,
};

pub(crate) fn submit(store: &mut Stepped, sequence: u64) {
    let mut payload = Vec::new();
    put(&mut payload, &sequence.to_be_bytes(), b"value").unwrap();
    store.submit(0, sequence, payload).unwrap();
}

#[test]
fn a_replaced_owner_is_fenced_and_the_new_one_has_all_commits() {
    let (bus, mine, theirs) = (embedded(), Folder::new(), Folder::new());
    let (tell, notified) = channel();
    let on_lost = Arc::new(move |lost: &Lost| drop(tell.send(lost.clone())));
    let settings = tidegate_mirror::Settings { on_lost, ..mirror_settings("a", mine.path()) };
    let older = tidegate_mirror::open(&bus, settings).unwrap().disk;
    let (mut store, committed) = stepped(&older, store_settings());
    for sequence in 1..=20 {
        submit(&mut store, sequence);
        while !store.step() {}
    }
    assert_eq!(*committed.lock().unwrap(), 20);
    let newer = mirror(&bus, "a", theirs.path()).unwrap().disk;
    submit(&mut store, 21);
    while !store.step() && !matches!(store.status().state(), State::Fenced(_)) {}
    assert_eq!(*committed.lock().unwrap(), 20, "nothing is confirmed behind the fence");
    assert!(!store.step(), "nor is it tried again");
    assert_eq!(older.lost(), Some(Lost::Fenced(place("a").log)));
    assert_eq!(notified.recv_timeout(PATIENCE), Ok(Lost::Fenced(place("a").log)));
    let fenced = || [mine.path(), theirs.path()].map(tidegate_mirror::is_fenced);
    assert_eq!(fenced(), [true, false], "the directory says that another process has the log");
    let before = contents(&store);
    assert_eq!(before.len(), 20, "reads continue");
    let (mut next, committed) = stepped(&newer, store_settings());
    assert!(contents(&next) == before);
    submit(&mut next, 22);
    while !next.step() {}
    assert_eq!(*committed.lock().unwrap(), 22);
    // When the older process returns, the part of its directory that the log does not have is cut off.
    drop((next, newer, store, older));
    assert_eq!(notified.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "it is notified once");
    let again = mirror(&bus, "a", mine.path()).unwrap().disk;
    let (store, _) = stepped(&again, store_settings());
    let keys: Vec<u64> = contents(&store).keys().map(|key| u64::from_be_bytes(key[..].try_into().unwrap())).collect();
    assert_eq!(keys, (1..=20).chain([22]).collect::<Vec<_>>());
    assert_eq!(fenced(), [false, false], "and no more when its process has it again");
}

#[test]
fn a_claim_by_an_absent_process_only_delays_commits() {
    let (bus, folder) = (embedded(), Folder::new());
    let disk = mirror(&bus, "a", folder.path()).unwrap().disk;
    let (mut store, committed) = stepped(&disk, store_settings());
    crate::harness::ask(|done| bus.own(&place("a"), done));
    submit(&mut store, 1);
    while !store.step() {}
    assert_eq!((*committed.lock().unwrap(), disk.lost()), (1, None));
    assert_eq!(crate::harness::contents_on(&bus, "a").len(), 1);
}

#[test]
fn a_closed_mirror_fails_pending_writes() {
    let (bus, folder) = (embedded(), Folder::new());
    let disk = mirror(&bus, "a", folder.path()).unwrap().disk;
    let (mut store, committed) = stepped(&disk, store_settings());
    disk.close(PATIENCE);
    submit(&mut store, 1);
    assert!(!store.step() && *committed.lock().unwrap() == 0);
    assert!(matches!(store.status().state(), State::Failing(_)));
    let second = tidegate_mirror::open(&bus, mirror_settings("a", folder.path()));
    assert!(matches!(second, Err(MirrorError::Locked { .. })), "the directory is in use until the disk is dropped");
}

#[test]
fn a_fetch_gets_all_commits_and_can_fence_the_owner() {
    let (bus, mine, theirs) = (embedded(), Folder::new(), Folder::new());
    let disk = mirror(&bus, "a", mine.path()).unwrap().disk;
    let (mut store, committed) = stepped(&disk, store_settings());
    let mut commit = |sequence| {
        submit(&mut store, sequence);
        while !store.step() && !matches!(store.status().state(), State::Fenced(_)) {}
    };
    commit(1);
    let log = place("a").log;
    let fetched = |fence: Option<u64>| {
        let _ = std::fs::remove_dir_all(theirs.path());
        tidegate_mirror::fetch(&bus, &log, theirs.path(), fence).unwrap();
        let local = Arc::new(tidegate_store::RealDisk::create(theirs.path()).unwrap());
        let store = tidegate_store::open(local, store_settings(), tidegate_store::keep_all()).unwrap().store;
        let mut count = 0;
        store.for_each(&mut |_, _| count += 1).unwrap();
        count
    };
    assert_eq!(fetched(None), 1);
    commit(2);
    assert_eq!(*committed.lock().unwrap(), 2, "its owner notices nothing");
    assert_eq!(fetched(Some(1)), 2);
    commit(3);
    assert_eq!((*committed.lock().unwrap(), fetched(Some(1))), (2, 2));
    assert_eq!(disk.lost(), Some(Lost::Fenced(log.clone())));
    let nothing = tidegate_mirror::fetch(&bus, &place("b").log, Folder::new().path(), None);
    assert!(matches!(nothing, Err(MirrorError::Bus { .. })));
}

/// A process that will be a member of a cluster, and its store.
fn member(bus: &Bus, folder: &Folder) -> (Arc<MirrorDisk>, Stepped, Committed) {
    let settings = tidegate_mirror::Settings { joins_cluster: true, ..mirror_settings("a", folder.path()) };
    let disk = tidegate_mirror::open(bus, settings).unwrap().disk;
    let (store, committed) = stepped(&disk, store_settings());
    (disk, store, committed)
}

/// Fetches the log as a taker with the table of an epoch. Returns the number of commits in it.
fn take(bus: &Bus, epoch: u64) -> usize {
    let folder = Folder::new();
    tidegate_mirror::fetch(bus, &place("a").log, folder.path(), Some(epoch)).unwrap();
    let local = Arc::new(tidegate_store::RealDisk::create(folder.path()).unwrap());
    let store = tidegate_store::open(local, store_settings(), tidegate_store::keep_all()).unwrap().store;
    let mut count = 0;
    store.for_each(&mut |_, _| count += 1).unwrap();
    count
}

#[test]
fn a_node_keeps_its_log_when_a_taker_fences_its_last_life() {
    let (bus, folder) = (embedded(), Folder::new());
    let (disk, mut store, committed) = member(&bus, &folder);
    let mut commit = |sequence| {
        submit(&mut store, sequence);
        while !store.step() && !matches!(store.status().state(), State::Fenced(_)) {}
        *committed.lock().unwrap()
    };
    assert_eq!(commit(1), 1);
    // Two takers of the former life, before this one is a member.
    assert_eq!((take(&bus, 5), take(&bus, 5)), (1, 1));
    assert_eq!((commit(2), disk.lost()), (2, None));
    assert_eq!(disk.serve_since(6), Ok(()));
    // A taker that is late.
    assert_eq!(take(&bus, 5), 2);
    assert_eq!((commit(3), disk.lost()), (3, None));
    // This life has died for the others.
    assert_eq!(take(&bus, 6), 3);
    assert_eq!((commit(4), disk.lost()), (3, Some(Lost::Fenced(place("a").log))));
    assert_eq!(take(&bus, 7), 3, "nothing is confirmed behind the fence");
}

#[test]
fn a_node_does_not_serve_at_an_epoch_whose_fence_it_ignored() {
    let (bus, folder) = (embedded(), Folder::new());
    let (disk, mut store, committed) = member(&bus, &folder);
    take(&bus, 5);
    submit(&mut store, 1);
    while !store.step() {}
    assert_eq!(*committed.lock().unwrap(), 1);
    let fenced = Lost::Fenced(place("a").log);
    assert_eq!((disk.serve_since(5), disk.lost()), (Err(fenced.clone()), Some(fenced)));
}

#[test]
fn a_second_process_fences_one_that_waits_for_its_cluster() {
    let (bus, mine, theirs) = (embedded(), Folder::new(), Folder::new());
    let (older, mut store, _) = member(&bus, &mine);
    let (newer, _, _) = member(&bus, &theirs);
    submit(&mut store, 1);
    while !store.step() && !matches!(store.status().state(), State::Fenced(_)) {}
    assert_eq!((older.lost(), newer.lost()), (Some(Lost::Fenced(place("a").log)), None));
}
