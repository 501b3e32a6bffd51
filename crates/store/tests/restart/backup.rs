//! Backups: of stores at rest and in use, repeated, interrupted, and into other directories.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tidegate_store::inspect::{BackupError, BackupReport, backup};
use tidegate_store::{DiskFile, LockError, LockGuard};

use super::*;

const COMPANIONS: [&str; 1] = ["tenants"];

fn back_up(source: &dyn Disk, target: &SimulatedDisk) -> Result<BackupReport, BackupError> {
    backup(source, target, "/data", &COMPANIONS)
}

fn restored(target: &SimulatedDisk) -> Entries {
    target.restart();
    let copy = SimulatedDisk::new(7);
    for name in names(target, "") {
        copy.put(&name, &target.contents(&name).unwrap());
    }
    contents(&opened(&copy).unwrap().store)
}

#[test]
fn a_backup_is_a_data_directory_with_all_entries() {
    let (source, target) = (used_disk(), SimulatedDisk::new(2));
    source.put("tenants", b"acme\n");
    let report = back_up(&source, &target).unwrap();
    assert!(report.copied_files >= 3 && report.kept_files == 0, "{report:?}");
    assert_eq!(restored(&target), entries(0..500));
    assert_eq!(target.contents("tenants").unwrap(), b"acme\n");
    assert!(problems(&target).is_empty());
}

/// A broker adds a tenant to the companion before it writes a key with the tenant's number.
#[test]
fn a_companion_names_all_that_the_copied_keys_refer_to() {
    let disk = used_disk();
    let writer = Mutex::new((stepped(&disk), 500));
    let grows = |disk: &SimulatedDisk, count: u64| disk.put("tenants", format!("{count}").as_bytes());
    let busy = Arc::new(Busy { disk, writer, portion: 3, reads: AtomicU64::new(0), grows: Some(grows) });
    let target = SimulatedDisk::new(2);
    back_up(&BusyDisk(busy), &target).unwrap();
    let named: usize = String::from_utf8(target.contents("tenants").unwrap()).unwrap().parse().unwrap();
    let count = restored(&target).len();
    assert!(named >= count, "{named} of {count}");
}

#[test]
fn a_second_backup_writes_only_new_content() {
    let (source, target) = (used_disk(), SimulatedDisk::new(2));
    let first = back_up(&source, &target).unwrap();
    let again = back_up(&source, &target).unwrap();
    assert_eq!((again.copied_files, again.kept_bytes), (0, first.copied_bytes));
    let mut store = stepped(&source);
    write(&mut store, 500..520);
    let third = back_up(&source, &target).unwrap();
    assert!(third.kept_bytes > third.copied_bytes && third.copied_files > 0, "{third:?}");
    assert_eq!(restored(&target), entries(0..520));
    write(&mut store, 520..600);
    while store.merge(100).unwrap() {}
    let fourth = back_up(&source, &target).unwrap();
    assert!(fourth.removed_files > 0, "{fourth:?}");
    assert_eq!(restored(&target), entries(0..600));
    assert!(problems(&target).is_empty());
}

#[test]
fn another_directory_than_a_backup_is_not_replaced() {
    let (source, used, target) = (used_disk(), used_disk(), SimulatedDisk::new(2));
    assert!(matches!(back_up(&source, &used), Err(BackupError::NotABackup)));
    back_up(&source, &target).unwrap();
    let other = backup(&source, &target, "/other", &COMPANIONS);
    assert!(matches!(other, Err(BackupError::OtherStore { origin }) if origin == "/data"));
    write(&mut stepped(&target), 500..501);
    assert!(matches!(back_up(&source, &target), Err(BackupError::NotABackup)));
    let nothing = SimulatedDisk::new(3);
    assert!(matches!(back_up(&nothing, &SimulatedDisk::new(4)), Err(BackupError::Source(InspectError::NoStore))));
}

#[test]
fn a_damaged_store_is_not_backed_up() {
    for prefix in ["journal-", "table-"] {
        let (source, target) = (used_disk(), SimulatedDisk::new(2));
        let earlier = back_up(&source, &target).unwrap();
        assert!(earlier.copied_files > 0);
        let name = names(&source, prefix).remove(0);
        let mut bytes = source.contents(&name).unwrap();
        bytes[5_000] ^= 1;
        source.put(&name, &bytes);
        let error = back_up(&source, &target).unwrap_err();
        assert!(error.to_string().contains("is damaged at byte"), "{error}");
    }
}

#[test]
fn a_failed_backup_leaves_the_one_before_it() {
    let (source, target) = (used_disk(), SimulatedDisk::new(2));
    back_up(&source, &target).unwrap();
    let mut store = stepped(&source);
    write(&mut store, 500..800);
    while store.merge(100).unwrap() {}
    target.set_capacity(Some(20_000));
    assert!(matches!(back_up(&source, &target), Err(BackupError::Target { .. })));
    assert_eq!(restored(&target), entries(0..500));
    target.set_capacity(None);
    back_up(&source, &target).unwrap();
    assert_eq!(restored(&target), entries(0..800));
}

#[test]
fn an_interrupted_first_backup_can_be_repeated() {
    let (source, target) = (used_disk(), SimulatedDisk::new(2));
    target.set_capacity(Some(20_000));
    assert!(matches!(back_up(&source, &target), Err(BackupError::Target { .. })));
    target.set_capacity(None);
    back_up(&source, &target).unwrap();
    assert_eq!(restored(&target), entries(0..500));
}

/// Reads from one merge to the next.
const MERGE_PERIOD: u64 = 40;

/// A store and the number of its entries, which change at every read of a backup.
struct Busy {
    disk: SimulatedDisk,
    writer: Mutex<(Stepped, u64)>,
    /// Entries that are written at each read.
    portion: u64,
    reads: AtomicU64,
    /// Writes a companion before the entries that need it: it gets the disk and the number of entries to come.
    grows: Option<fn(&SimulatedDisk, u64)>,
}

impl Busy {
    fn work(&self) {
        let (store, count) = &mut *self.writer.lock().unwrap();
        if let Some(grow) = self.grows {
            grow(&self.disk, *count + self.portion);
        }
        write(store, *count..*count + self.portion);
        *count += self.portion;
        if self.reads.fetch_add(1, Relaxed) % MERGE_PERIOD == MERGE_PERIOD - 1 {
            while store.merge(100).unwrap() {}
        }
    }
}

/// A disk on which the store works before each read.
struct BusyDisk(Arc<Busy>);

struct BusyFile(Arc<Busy>, Arc<dyn DiskFile>);

impl DiskFile for BusyFile {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        panic!("a backup never writes into the store")
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.work();
        self.1.read_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        panic!("a backup never writes into the store")
    }

    fn length(&self) -> io::Result<u64> {
        self.1.length()
    }

    fn set_length(&self, _: u64) -> io::Result<()> {
        panic!("a backup never writes into the store")
    }
}

impl Disk for BusyDisk {
    fn create(&self, _: &str) -> io::Result<Arc<dyn DiskFile>> {
        panic!("a backup never writes into the store")
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(BusyFile(Arc::clone(&self.0), self.0.disk.open(name)?)))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        panic!("a backup never writes into the store")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        panic!("a backup never writes into the store")
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.disk.list()
    }

    fn sync_directory(&self) -> io::Result<()> {
        panic!("a backup never writes into the store")
    }

    fn free_space(&self) -> io::Result<u64> {
        self.0.disk.free_space()
    }

    fn lock(&self) -> Result<LockGuard, LockError> {
        panic!("a backup does not lock the store")
    }

    fn lock_for_reading(&self) -> Result<LockGuard, LockError> {
        panic!("a backup does not lock the store")
    }

    fn random(&self) -> u64 {
        self.0.disk.random()
    }
}

#[test]
fn a_backup_of_a_busy_store_is_a_state_that_it_had() {
    for portion in [1, 7, 20] {
        let disk = used_disk();
        let writer = Mutex::new((stepped(&disk), 500));
        let busy = Arc::new(Busy { disk, writer, portion, reads: AtomicU64::new(0), grows: None });
        let (source, target) = (BusyDisk(Arc::clone(&busy)), SimulatedDisk::new(2));
        for _ in 0..10 {
            let before = busy.writer.lock().unwrap().1;
            back_up(&source, &target).unwrap();
            let after = busy.writer.lock().unwrap().1;
            let found = restored(&target);
            let count = found.len() as u64;
            assert!((before..=after).contains(&count), "{count} of {before} to {after}");
            assert_eq!(found, entries(0..count));
        }
    }
}
