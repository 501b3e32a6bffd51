//! Stores of earlier versions, as files of this repository. Each folder of `fixtures/` is one and is never written again:
//! a new format gets a new folder. `UPDATE_FIXTURES=1 cargo test -p tidegate-store --test restart versions` writes the
//! folder of this version where it is missing.

use std::path::{Path, PathBuf};

use super::*;

/// The formats of this version: journal, table, manifest.
const CURRENT: &str = "journal-2-table-1-manifest-1";

/// The files of a store end with zeros up to the size of a page, not up to their allocated size.
const PAGE: usize = 4_096;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/restart/fixtures")
}

/// Entries in a table and in the journal behind it: ten are changed and five deleted behind their first write.
fn expected() -> Entries {
    let mut all = entries(0..160);
    all.extend((0..10).map(|index| (key(index), vec![0xC0 | index as u8; 7])));
    for index in 10..15 {
        all.remove(&key(index));
    }
    all
}

fn write_current(folder: &Path) {
    let disk = SimulatedDisk::new(1);
    let mut store = stepped(&disk);
    write(&mut store, 0..150);
    let mut deletes = Vec::new();
    for index in 10..15 {
        delete(&mut deletes, &key(index)).unwrap();
    }
    store.submit(0, 151, deletes).unwrap();
    assert!(!store.step());
    while store.merge(100).unwrap() {}
    write(&mut store, 150..160);
    let mut changes = Vec::new();
    for index in 0..10 {
        put(&mut changes, &key(index), &[0xC0 | index as u8; 7]).unwrap();
    }
    store.submit(0, 199, changes).unwrap();
    assert!(!store.step());
    drop(store);
    disk.restart();
    std::fs::create_dir_all(folder).unwrap();
    let is_needed = |name: &String| !name.starts_with("spare-") && !["LOCK", "RESERVE"].contains(&name.as_str());
    for name in names(&disk, "").into_iter().filter(is_needed) {
        let mut bytes = disk.contents(&name).unwrap();
        if name.starts_with("journal-") {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(end.next_multiple_of(PAGE));
        }
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn stores_of_each_format_are_opened_with_exact_contents() {
    let current = fixtures().join(CURRENT);
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !current.exists() {
        write_current(&current);
    }
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        let disk = SimulatedDisk::new(1);
        for file in std::fs::read_dir(&folder).unwrap() {
            let path = file.unwrap().path();
            disk.put(&path.file_name().unwrap().to_string_lossy(), &std::fs::read(&path).unwrap());
        }
        assert!(problems(&disk).is_empty(), "{}: {:?}", folder.display(), problems(&disk));
        let Opened { store, report } = opened(&disk).unwrap();
        assert!(report.table_entries > 0 && report.frames > 0 && report.torn.is_none(), "{report:?}");
        assert_eq!(contents(&store), expected(), "{}", folder.display());
        // It is used on: written, merged, and opened again.
        let mut store = store.stepped(Box::new(|_: u16, _: u64| {}));
        write(&mut store, 160..170);
        while store.merge(100).unwrap() {}
        drop(store);
        disk.restart();
        let mut all = expected();
        all.extend(entries(160..170));
        assert_eq!(contents(&opened(&disk).unwrap().store), all, "{}", folder.display());
        count += 1;
    }
    assert!(current.exists() && count >= 1, "UPDATE_FIXTURES=1 writes the folder of this version");
}
