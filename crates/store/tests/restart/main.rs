//! Opening a store: one test for each outcome.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod backup;
mod damage;
mod formats;
mod room;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_store::inspect::{Completeness, EntryKind, InspectError, check, export, import, stats};
use tidegate_store::operation::{delete, put};
use tidegate_store::{
    Disk, Failure, OpenError, Opened, ReadError, RealDisk, RecoveryReport, Settings, SimulatedDisk, State, Stepped,
    Store, SweepFactory, keep_all, open,
};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn settings() -> Settings {
    Settings { segment_bytes: 16_384, merge_min_bytes: 0, min_free_bytes: 0, ..Settings::default() }
}

fn opened(disk: &SimulatedDisk) -> Result<Opened, OpenError> {
    open(Arc::new(disk.clone()), settings(), keep_all())
}

fn stepped(disk: &SimulatedDisk) -> Stepped {
    opened(disk).unwrap().store.stepped(Box::new(|_: u16, _: u64| {}))
}

fn contents(store: &Store) -> Entries {
    let mut found = Entries::new();
    store.for_each(&mut |key, value| drop(found.insert(key.to_vec(), value.to_vec()))).unwrap();
    found
}

fn key(index: u64) -> Vec<u8> {
    format!("key{index:05}").into_bytes()
}

/// Commits entries, one batch each.
fn write(store: &mut Stepped, range: std::ops::Range<u64>) {
    for index in range {
        let mut batch = Vec::new();
        put(&mut batch, &key(index), &[index as u8; 100]).unwrap();
        store.submit(0, index + 1, batch).unwrap();
        assert!(!store.step());
    }
}

fn entries(range: std::ops::Range<u64>) -> Entries {
    range.map(|index| (key(index), vec![index as u8; 100])).collect()
}

/// A disk with a table, several journal files and no process.
fn used_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let mut store = stepped(&disk);
    write(&mut store, 0..300);
    while store.merge(100).unwrap() {}
    write(&mut store, 300..500);
    drop(store);
    disk.restart();
    disk
}

/// A disk with a journal whose files were never anything else, and no process.
fn fresh_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    write(&mut stepped(&disk), 0..500);
    disk.restart();
    disk
}

fn names(disk: &SimulatedDisk, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = disk.list().unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

fn refused(disk: &SimulatedDisk) -> OpenError {
    let before: Vec<_> = names(disk, "").iter().map(|name| (name.clone(), disk.contents(name))).collect();
    let error = opened(disk).err().expect("it is refused");
    let after: Vec<_> = names(disk, "").iter().map(|name| (name.clone(), disk.contents(name))).collect();
    assert!(before == after, "a refused store is unchanged");
    error
}

/// The entries saved of a damaged store, and the reported losses.
fn salvaged(disk: &SimulatedDisk) -> (Entries, Vec<String>) {
    let (from, to): (Arc<dyn Disk>, _) = (Arc::new(disk.clone()), SimulatedDisk::new(9));
    let mut lines = Vec::new();
    let report = export(&from, &mut lines, true, &|_, _| None).unwrap();
    import(Arc::new(to.clone()), &mut lines.as_slice(), Completeness::Whole).unwrap();
    let skipped = report.skipped.iter().map(|skipped| format!("{}: {}", skipped.file, skipped.problem)).collect();
    (contents(&opened(&to).unwrap().store), skipped)
}

fn problems(disk: &SimulatedDisk) -> Vec<String> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&disk).unwrap();
    report.files.into_iter().flat_map(|file| file.problems).collect()
}

#[test]
fn an_empty_directory_becomes_a_store() {
    let disk = SimulatedDisk::new(1);
    let Opened { store, report } = opened(&disk).unwrap();
    assert!(report.created && report.clean);
    assert!(contents(&store).is_empty());
}

#[test]
fn a_store_that_was_stopped_is_found_clean() {
    let disk = used_disk();
    let mut store = stepped(&disk);
    write(&mut store, 500..510);
    store.end();
    drop(store);
    let Opened { store, report } = opened(&disk).unwrap();
    assert!(report.clean && report.torn.is_none(), "{report:?}");
    assert_eq!(contents(&store), entries(0..510));
}

#[test]
fn a_process_that_was_killed_loses_nothing() {
    let disk = used_disk();
    let Opened { store, report } = opened(&disk).unwrap();
    assert!(!report.clean && report.torn.is_none(), "{report:?}");
    assert_eq!((report.frames > 0, report.table_entries > 0), (true, true));
    assert_eq!(contents(&store), entries(0..500));
}

#[test]
fn another_format_version_is_refused_with_a_remedy() {
    for version in [0_u32, 3] {
        let disk = used_disk();
        let text = String::from_utf8(disk.contents("MANIFEST").unwrap()).unwrap();
        disk.put("MANIFEST", text.replacen("tidegate-store 1", &format!("tidegate-store {version}"), 1).as_bytes());
        let error = refused(&disk);
        assert!(error.to_string().contains("the version that wrote it"), "{error}");
        assert!(matches!(error, OpenError::Read(ReadError::Version { found, .. }) if found == version));
        for prefix in ["journal-", "table-"] {
            let disk = used_disk();
            let name = names(&disk, prefix).remove(0);
            let mut bytes = disk.contents(&name).unwrap();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            disk.put(&name, &bytes);
            assert!(matches!(refused(&disk), OpenError::Read(ReadError::Version { found, .. }) if found == version));
        }
    }
}

#[test]
fn a_read_only_directory_is_refused() {
    let disk = used_disk();
    disk.set_read_only(true);
    let error = refused(&disk);
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
    // It can be looked at nevertheless.
    assert!(problems(&disk).is_empty());
}

#[test]
fn a_full_disk_at_start_is_refused_without_filling_it() {
    let disk = used_disk();
    disk.set_capacity(Some(1));
    for _ in 0..3 {
        let before = names(&disk, "");
        let error = opened(&disk).err().unwrap();
        assert!(matches!(error, OpenError::NoSpace { .. }), "{error}");
        assert_eq!(names(&disk, "").len().max(before.len()), before.len());
    }
    disk.set_capacity(None);
    assert_eq!(contents(&opened(&disk).unwrap().store), entries(0..500));
}

#[test]
fn a_second_process_is_refused() {
    let disk = used_disk();
    let first = opened(&disk).unwrap();
    let error = opened(&disk).err().unwrap();
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    let looked: Arc<dyn Disk> = Arc::new(disk.clone());
    assert!(matches!(check(&looked), Err(InspectError::Open(OpenError::Locked { .. }))));
    drop(first);
    assert!(opened(&disk).is_ok());
}

#[test]
fn many_starts_leave_few_files() {
    let disk = used_disk();
    let before = names(&disk, "").len();
    for _ in 0..20 {
        drop(opened(&disk).unwrap());
    }
    assert!(names(&disk, "").len() <= before + 1, "{:?}", names(&disk, ""));
    assert_eq!(contents(&opened(&disk).unwrap().store), entries(0..500));
}

#[test]
fn leftovers_of_interrupted_work_are_removed_and_reported() {
    let disk = used_disk();
    disk.put("run-000000000900.tmp", b"half a run");
    disk.put("table-000000000901.tbl", b"half a table");
    let RecoveryReport { removed, .. } = opened(&disk).unwrap().report;
    assert!(removed.contains(&"run-000000000900.tmp".to_owned()), "{removed:?}");
    assert!(removed.contains(&"table-000000000901.tbl".to_owned()), "{removed:?}");
}

#[test]
fn an_export_can_be_imported_into_an_empty_directory_only() {
    let disk: Arc<dyn Disk> = Arc::new(used_disk());
    let mut lines = Vec::new();
    assert_eq!(export(&disk, &mut lines, false, &|key, _| Some(format!("\"{}\"", key.len()))).unwrap().entries, 500);
    assert!(String::from_utf8_lossy(&lines).contains(r#","text":"\"8\""}"#));
    let other = SimulatedDisk::new(9);
    assert_eq!(import(Arc::new(other.clone()), &mut lines.as_slice(), Completeness::Whole).unwrap().entries, 500);
    let before = names(&other, "");
    let again = import(Arc::new(other.clone()), &mut lines.as_slice(), Completeness::Whole).unwrap_err().to_string();
    assert!(again.contains("import into an empty one"), "{again}");
    assert_eq!(names(&other, ""), before, "existing files are unchanged");
    assert_eq!(contents(&opened(&other).unwrap().store), entries(0..500));
    let broken = import(Arc::new(SimulatedDisk::new(1)), &mut &b"{\"key\":\"0\"}\n"[..], Completeness::Whole)
        .unwrap_err()
        .to_string();
    assert!(broken.contains("line 1"), "{broken}");
}

#[test]
fn a_real_directory_is_private_and_locked() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("tidegate-store-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::create(&path).unwrap());
    let Opened { store, .. } = open(Arc::clone(&disk), settings(), keep_all()).unwrap();
    let mut store = store.stepped(Box::new(|_: u16, _: u64| {}));
    write(&mut store, 0..500);
    while store.merge(100).unwrap() {}
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in std::fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    let second: Arc<dyn Disk> = Arc::new(RealDisk::existing(&path).unwrap());
    let error = open(Arc::clone(&second), settings(), keep_all()).err().unwrap();
    assert!(matches!(error, OpenError::Locked { holder: Some(pid) } if pid == std::process::id()), "{error}");
    drop(store);
    assert_eq!(contents(&open(second, settings(), keep_all()).unwrap().store), entries(0..500));
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_directory_that_cannot_be_made_is_said_to_be_that() {
    let file = std::env::temp_dir().join(format!("tidegate-store-file-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let error = RealDisk::create(&file.join("store")).unwrap_err().to_string();
    std::fs::remove_file(&file).unwrap();
    assert!(error.starts_with("the directory is not there and cannot be made: "), "{error}");
}
