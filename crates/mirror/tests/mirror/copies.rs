//! The working copy: it is used again where it is verified, and rejected otherwise.

use std::fs;
use std::sync::Arc;

use tidegate_bus::Bus;
use tidegate_mirror::{MirrorError, Settings};
use tidegate_store::{Disk, RealDisk, Stepped, keep_all};

use crate::harness::{
    Folder, Model, PATIENCE, Random, ask, batch, bounds, bus_with, contents, contents_on, embedded, mirror,
    mirror_settings, place, records, stepped, store_settings,
};

fn work(store: &mut Stepped, random: &mut Random, model: &mut Model, batches: u64) {
    for sequence in 1..=batches {
        let payload = batch(random, model);
        store.submit(0, sequence, payload).unwrap();
        while !store.step() {}
        if random.one_in(20) {
            while store.merge(1_000).unwrap() {}
        }
    }
}

/// A node that has worked, and its content.
fn worked(bus: &Bus, folder: &Folder, closes: bool) -> Model {
    let opened = mirror(bus, "a", folder.path()).unwrap();
    let (mut store, _) = stepped(&opened.disk, store_settings());
    let mut model = contents(&store);
    work(&mut store, &mut Random::new(7), &mut model, 60);
    if closes {
        store.end();
        drop(store);
        opened.disk.close(PATIENCE);
    }
    model
}

#[test]
fn a_restart_with_a_copy_fetches_only_missing_records() {
    let (bus, folder) = (embedded(), Folder::new());
    let model = worked(&bus, &folder, true);
    let opened = mirror(&bus, "a", folder.path()).unwrap();
    assert!(opened.report.resumed, "{:?}", opened.report);
    assert_eq!(opened.report.bytes, 0, "after a stop as it should be the copy is whole");
    let (mut store, _) = stepped(&opened.disk, store_settings());
    assert!(contents(&store) == model);
    let mut model = model;
    work(&mut store, &mut Random::new(8), &mut model, 60);
    drop((store, opened));
    // Killed: the records after the last list of files are fetched.
    let all: u64 = records(&bus, "a").iter().map(|record| record.payload.len() as u64).sum();
    let opened = mirror(&bus, "a", folder.path()).unwrap();
    assert!(opened.report.resumed && opened.report.bytes < all, "{:?} of {all}", opened.report);
    assert!(contents(&stepped(&opened.disk, store_settings()).0) == model);
}

#[test]
fn a_changed_copy_is_fetched_again() {
    let (bus, folder) = (embedded(), Folder::new());
    let model = worked(&bus, &folder, true);
    let journal = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let journal = journal.filter(|path| path.to_str().unwrap().contains("journal-")).max().unwrap();
    let mut bytes = fs::read(&journal).unwrap();
    bytes[4_200] ^= 1;
    fs::write(&journal, &bytes).unwrap();
    let opened = mirror(&bus, "a", folder.path()).unwrap();
    assert!(!opened.report.resumed && opened.report.bytes > 0);
    assert!(contents(&stepped(&opened.disk, store_settings()).0) == model);
}

#[test]
fn what_the_bus_never_confirmed_is_cut_off_the_copy() {
    let (bus, folder) = (embedded(), Folder::new());
    worked(&bus, &folder, true);
    // A later life got further here than on the bus.
    let before = records(&bus, "a");
    worked(&bus, &folder, false);
    let model = contents_on(&bus_with("a", &before), "a");
    // The older log again, as far as it was confirmed; positions have to be greater than the positions that the copy has seen.
    let bus = bus_with("a", &before);
    let place = place("a");
    for _ in 0..bounds(&bus, "a").next.0 {
        ask(|done| bus.own(&place, done));
    }
    fs::remove_file(folder.path().join("MIRROR")).unwrap();
    fs::write(folder.path().join("MIRROR"), b"torn").unwrap();
    let opened = mirror(&bus, "a", folder.path()).unwrap();
    assert!(contents(&stepped(&opened.disk, store_settings()).0) == model);
}

#[test]
fn a_store_of_this_disk_is_carried_to_an_empty_log() {
    let (bus, folder) = (embedded(), Folder::new());
    let mut model = Model::new();
    {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder.path()).unwrap());
        let store = tidegate_store::open(disk, store_settings(), keep_all()).unwrap().store;
        let mut store = store.stepped(Box::new(|_: u16, _: u64| {}));
        work(&mut store, &mut Random::new(1), &mut model, 60);
    }
    let opened = mirror(&bus, "a", folder.path()).unwrap();
    assert!(opened.report.filled && !opened.report.created);
    assert!(contents(&stepped(&opened.disk, store_settings()).0) == model);
    drop(opened);
    assert!(contents_on(&bus, "a") == model);
    assert!(mirror(&bus, "a", folder.path()).unwrap().report.records > 0, "it is a copy like any other now");
}

#[test]
fn an_incomplete_log_is_filled_again_by_its_owner_only() {
    let (bus, folder) = (embedded(), Folder::new());
    let mut model = Model::new();
    {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder.path()).unwrap());
        let store = tidegate_store::open(disk, store_settings(), keep_all()).unwrap().store;
        let mut store = store.stepped(Box::new(|_: u16, _: u64| {}));
        work(&mut store, &mut Random::new(1), &mut model, 20);
    }
    drop(mirror(&bus, "a", folder.path()).unwrap());
    let some = &records(&bus, "a")[..2];
    let bus = bus_with("a", some);
    let elsewhere = Folder::new();
    assert!(matches!(mirror(&bus, "a", elsewhere.path()), Err(MirrorError::Unfinished { .. })));
    fs::remove_file(folder.path().join("MIRROR")).unwrap();
    let opened = mirror(&bus, "a", folder.path()).unwrap();
    assert!(opened.report.filled);
    drop(opened);
    assert!(contents_on(&bus, "a") == model);
}

#[test]
fn a_log_is_not_whole_before_all_files_are_in_it() {
    let (bus, folder) = (embedded(), Folder::new());
    {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(folder.path()).unwrap());
        let store = tidegate_store::open(disk, store_settings(), keep_all()).unwrap().store;
        let mut store = store.stepped(Box::new(|_: u16, _: u64| {}));
        work(&mut store, &mut Random::new(1), &mut Model::new(), 20);
    }
    let settings = Settings { index_after_bytes: 1, ..mirror_settings("a", folder.path()) };
    assert!(tidegate_mirror::open(&bus, settings).unwrap().report.filled);
    let all = records(&bus, "a");
    let (_list, others) = all.split_last().unwrap();
    let (bus, elsewhere) = (bus_with("a", others), Folder::new());
    assert!(mirror(&bus, "a", elsewhere.path()).is_err(), "a list of all files is in it");
}

#[test]
fn a_directory_of_another_log_is_refused_and_unchanged() {
    let (bus, folder) = (embedded(), Folder::new());
    worked(&bus, &folder, true);
    let other = mirror(&bus, "b", folder.path()).err().unwrap();
    assert!(matches!(&other, MirrorError::OtherLog { found, .. } if found == "store-a"), "{other}");
    fs::remove_file(folder.path().join("MIRROR")).unwrap();
    let names = || fs::read_dir(folder.path()).unwrap().count();
    let before = names();
    let foreign = mirror(&bus, "a", folder.path()).err().unwrap();
    assert!(matches!(foreign, MirrorError::Foreign { .. }), "{foreign}");
    assert_eq!(names(), before);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::existing(folder.path()).unwrap());
    tidegate_store::open(disk, store_settings(), keep_all()).unwrap();
}

#[test]
fn a_log_that_is_gone_is_filled_from_the_working_copy() {
    let (bus, folder) = (embedded(), Folder::new());
    worked(&bus, &folder, true);
    let model = contents_on(&bus, "a");
    for _ in 0..3 {
        // The servers have lost their disks.
        let bus = embedded();
        let opened = mirror(&bus, "a", folder.path()).unwrap();
        assert!(opened.report.filled && !opened.report.created);
        drop(opened);
        assert!(contents_on(&bus, "a") == model);
        // The copy resumes from there.
        assert!(mirror(&bus, "a", folder.path()).unwrap().report.resumed);
    }
}

#[test]
fn a_log_that_is_gone_and_was_claimed_often_is_filled_again() {
    let (bus, folder) = (embedded(), Folder::new());
    worked(&bus, &folder, true);
    let (model, end) = (contents_on(&bus, "a"), records(&bus, "a").last().unwrap().position);
    let bus = bus_with("a", &[]);
    // Others have read the log, and found no files.
    while ask(|done| bus.own(&place("a"), done)).0 <= end {}
    assert!(mirror(&bus, "a", folder.path()).unwrap().report.filled);
    assert!(contents_on(&bus, "a") == model);
}

#[test]
fn a_log_with_lost_records_is_refused_with_a_remedy() {
    let (bus, folder) = (embedded(), Folder::new());
    worked(&bus, &folder, true);
    let all = records(&bus, "a");
    worked(&bus, &folder, true);
    let behind = mirror(&bus_with("a", &all), "a", folder.path()).err().unwrap();
    assert!(matches!(behind, MirrorError::Behind { .. }) && behind.to_string().contains("bring"), "{behind}");
    for missing in [1, all.len() / 2] {
        let mut less = all.clone();
        less.remove(missing);
        let elsewhere = Folder::new();
        let opened = mirror(&bus_with("a", &less), "a", elsewhere.path());
        let error = opened.err().unwrap();
        assert!(matches!(error, MirrorError::Damaged { .. }), "without record {missing}: {error}");
        let mut damaged = all.clone();
        let mut payload = damaged[missing].payload.to_vec();
        payload[9] ^= 4;
        damaged[missing].payload = payload.into();
        let error = mirror(&bus_with("a", &damaged), "a", elsewhere.path()).err().unwrap();
        assert!(matches!(error, MirrorError::Damaged { .. }), "with damage in record {missing}: {error}");
    }
    // Without its only list of files the log may be incomplete.
    let error = mirror(&bus_with("a", &all[..all.len() - 1]), "a", Folder::new().path()).err().unwrap();
    assert!(matches!(error, MirrorError::Unfinished { .. }), "{error}");
}

#[test]
fn a_file_beside_the_store_is_replaced_as_a_whole() {
    let (bus, folder, elsewhere) = (embedded(), Folder::new(), Folder::new());
    let disk = mirror(&bus, "a", folder.path()).unwrap().disk;
    disk.replace("tenants", b"one\n").unwrap();
    let end = bounds(&bus, "a").next;
    disk.replace("tenants", b"one\n").unwrap();
    assert_eq!(bounds(&bus, "a").next, end, "unchanged files are not sent again");
    disk.replace("tenants", b"one\ntwo\n").unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("tenants")).unwrap(), "one\ntwo\n");
    drop(disk);
    let _disk = mirror(&bus, "a", elsewhere.path()).unwrap();
    assert_eq!(fs::read_to_string(elsewhere.path().join("tenants")).unwrap(), "one\ntwo\n");
}
