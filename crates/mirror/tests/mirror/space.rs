//! The log stays as small as the live content and a little more.

use std::thread;
use std::time::Instant;

use tidegate_store::operation::{delete, put};
use tidegate_store::{Disk, Settings, State, Stepped};

use crate::harness::{Folder, PATIENCE, contents_on, embedded, mirror_settings, records, stepped};

fn bytes_on(bus: &tidegate_bus::Bus) -> u64 {
    records(bus, "a").iter().map(|record| record.payload.len() as u64).sum()
}

#[test]
fn the_log_does_not_grow_with_dead_records() {
    let (bus, folder) = (embedded(), Folder::new());
    let settings = tidegate_mirror::Settings {
        chunk_bytes: 8_192,
        index_after_bytes: 64 * 1024,
        max_dead_bytes: 128 * 1024,
        ..mirror_settings("a", folder.path())
    };
    let disk = tidegate_mirror::open(&bus, settings).unwrap().disk;
    disk.replace("tenants", b"one\n").unwrap();
    let store = Settings { segment_bytes: 64 * 1024, merge_min_bytes: 0, min_free_bytes: 0, ..Settings::default() };
    let (mut store, _) = stepped(&disk, store);
    let (mut carried, mut most) = (0_u64, 0);
    for round in 0..60_u64 {
        let mut batch = Vec::new();
        for key in 0..200_u64 {
            put(&mut batch, &key.to_be_bytes(), &[round as u8 + 1; 400]).unwrap();
            if round > 0 && key % 2 == 0 {
                delete(&mut batch, &key.to_be_bytes()).unwrap();
            }
        }
        carried += batch.len() as u64;
        store.submit(0, round + 1, batch).unwrap();
        while !store.step() {}
        store.make_spare().unwrap();
        if round % 3 == 2 {
            store.checkpoint();
            while store.merge(10_000).unwrap() {}
        }
        let state = disk.status();
        most = most.max(bytes_on(&bus));
        assert!(state.log_bytes >= bytes_on(&bus), "{state:?} but {}", bytes_on(&bus));
    }
    assert!(carried > 4_000_000, "{carried}");
    // Alive are 100 values of 400 bytes and up to three rounds of journal. A busy machine trims the log later.
    assert!(most < 2_000_000, "{most} of {carried}");
    drop((store, disk));
    assert_eq!(contents_on(&bus, "a").len(), 100);
}

#[test]
fn a_removed_file_gives_room_without_a_write() {
    let (bus, folder) = (embedded(), Folder::new());
    let settings = tidegate_mirror::Settings {
        index_after_bytes: 16 << 20,
        max_dead_bytes: 1 << 20,
        ..mirror_settings("a", folder.path())
    };
    let disk = tidegate_mirror::open(&bus, settings).unwrap().disk;
    let file = disk.create("dead").unwrap();
    file.write_at(&vec![7; 4 << 20], 0).unwrap();
    file.sync_data().unwrap();
    // It writes a list of all files.
    disk.replace("tenants", b"one\n").unwrap();
    disk.remove("dead").unwrap();
    disk.sync_directory().unwrap();
    // The log is trimmed by the mirror's thread.
    let end = Instant::now() + PATIENCE;
    while disk.status().log_bytes > 1 << 20 {
        assert!(Instant::now() < end, "{:?}", disk.status());
        thread::yield_now();
    }
}

#[test]
fn files_that_are_only_room_are_not_carried() {
    let (bus, folder) = (embedded(), Folder::new());
    let disk = tidegate_mirror::open(&bus, mirror_settings("a", folder.path())).unwrap().disk;
    let store = Settings { segment_bytes: 4 << 20, merge_min_bytes: 0, min_free_bytes: 0, ..Settings::default() };
    let (mut store, _) = stepped(&disk, store);
    store.make_spare().unwrap();
    let mut batch = Vec::new();
    put(&mut batch, b"key", b"value").unwrap();
    store.submit(0, 1, batch).unwrap();
    while !store.step() {}
    // The file that was merged becomes room for another one.
    store.checkpoint();
    while store.merge(10_000).unwrap() {}
    store.checkpoint();
    assert!(bytes_on(&bus) < 20_000, "{}", bytes_on(&bus));
    drop((store, disk));
    assert_eq!(contents_on(&bus, "a").len(), 1);
}

#[test]
fn a_log_without_room_is_a_disk_without_room() {
    let (bus, folder) = (embedded(), Folder::new());
    let settings = tidegate_mirror::Settings { max_bytes: 0, ..mirror_settings("a", folder.path()) };
    let disk = tidegate_mirror::open(&bus, settings).unwrap().disk;
    let store =
        Settings { segment_bytes: 8 << 20, merge_min_bytes: 0, min_free_bytes: 16 << 20, ..Settings::default() };
    let (mut store, committed) = stepped(&disk, store);
    let mut sequence = 0;
    let mut submit = |store: &mut Stepped| {
        sequence += 1;
        let mut batch = Vec::new();
        put(&mut batch, b"key", &vec![7; 1 << 20]).unwrap();
        store.submit(0, sequence, batch).unwrap();
        store.step();
        assert!(sequence < 200, "64 MiB are full");
        sequence
    };
    let mut last = 0;
    while !store.status().is_full() {
        last = submit(&mut store);
    }
    assert_eq!(
        (store.status().state(), *committed.lock().unwrap()),
        (State::Ok, last),
        "the commit is reported in time"
    );
    // Dead entries are merged away, which frees space.
    store.checkpoint();
    while store.merge(10_000).unwrap() {}
    submit(&mut store);
    // The log is trimmed by the mirror's thread.
    let end = Instant::now() + PATIENCE;
    while store.status().is_full() {
        assert!(Instant::now() < end, "the trimmed log has room");
        // A store with nothing to write learns of the room by this alone.
        store.measure_free_space();
        thread::yield_now();
    }
    // A writer that continues meets the limit, as on a disk.
    while store.status().state() == State::Ok {
        last = submit(&mut store);
    }
    assert_eq!((store.status().state(), *committed.lock().unwrap()), (State::Full, last - 1));
    assert!(disk.status().log_bytes <= 64 << 20);
}
