//! Damage: a torn end is cut off, a damaged or missing file is refused, and readable parts can be saved.

use super::*;

#[test]
fn a_torn_tail_is_cut_off_and_reported() {
    let disk = fresh_disk();
    let last = names(&disk, "journal-").pop().unwrap();
    let mut bytes = disk.contents(&last).unwrap();
    // The last frame has 24 + 3 + 8 + 4 + 100 bytes; half of it did not reach the disk.
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes[end - 60..].fill(0);
    disk.put(&last, &bytes);
    let Opened { store, report } = opened(&disk).unwrap();
    let torn = report.torn.unwrap();
    assert_eq!((torn.file, torn.offset, torn.frames), (last, end as u64 - 139, 0));
    assert!(torn.bytes > 0);
    assert_eq!(contents(&store), entries(0..499));
}

#[test]
fn a_torn_page_before_a_whole_unsynced_one_is_a_torn_tail() {
    let disk = SimulatedDisk::new(1);
    let mut store = stepped(&disk);
    write(&mut store, 0..10);
    // Two batches of one group.
    for index in 10..12 {
        let mut batch = Vec::new();
        put(&mut batch, &key(index), &[index as u8; 100]).unwrap();
        store.submit(0, index + 1, batch).unwrap();
    }
    store.step();
    drop(store);
    disk.restart();
    let last = names(&disk, "journal-").pop().unwrap();
    let mut bytes = disk.contents(&last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes[end - 200..end - 150].fill(0);
    disk.put(&last, &bytes);
    let Opened { store, report } = opened(&disk).unwrap();
    assert_eq!(report.torn.unwrap().frames, 1);
    assert_eq!(contents(&store), entries(0..10));
}

#[test]
fn a_bit_flip_in_the_journal_is_refused_and_the_rest_saved() {
    for file in 0..2 {
        let disk = used_disk();
        let names = names(&disk, "journal-");
        assert!(names.len() > 2);
        // The oldest file, and the newest, in which whole frames follow.
        let name = if file == 0 { &names[0] } else { names.last().unwrap() };
        assert!(disk.flip_bit(name, 4096 + 200, 3));
        let error = refused(&disk);
        let OpenError::Read(ReadError::Damaged { file, offset, .. }) = &error else {
            panic!("{error}");
        };
        assert_eq!((file, *offset), (name, 4096 + 139));
        let text = error.to_string();
        assert!(text.contains("tidegate store check") && text.contains("export --salvage"), "{text}");
        assert_eq!(problems(&disk).len(), 1);
        let (saved, skipped) = salvaged(&disk);
        assert_eq!((saved.len(), skipped.len()), (499, 1), "{skipped:?}");
        assert!(skipped[0].contains("at byte 4235"), "{skipped:?}");
    }
}

#[test]
fn damage_in_the_last_frame_is_refused_and_reported() {
    let disk = SimulatedDisk::new(1);
    let mut store = stepped(&disk);
    write(&mut store, 0..1);
    store.end();
    drop(store);
    disk.restart();
    drop(opened(&disk).unwrap());
    let name = names(&disk, "journal-").remove(0);
    disk.flip_bit(&name, 4096 + 100, 0);
    refused(&disk);
    assert_eq!(problems(&disk).len(), 1);
    let (saved, skipped) = salvaged(&disk);
    assert_eq!((saved.len(), skipped.len()), (0, 1), "{skipped:?}");
}

#[test]
fn a_bit_flip_in_the_header_of_a_journal_file_is_refused() {
    let disk = used_disk();
    let name = names(&disk, "journal-").remove(0);
    disk.flip_bit(&name, 20, 0);
    assert!(matches!(refused(&disk), OpenError::Read(ReadError::Damaged { file, offset: 0, .. }) if file == name));
}

#[test]
fn a_bit_flip_at_the_end_of_a_store_that_was_stopped_is_damage() {
    let disk = fresh_disk();
    let mut store = stepped(&disk);
    write(&mut store, 500..510);
    store.end();
    drop(store);
    disk.restart();
    let last = names(&disk, "journal-").pop().unwrap();
    let bytes = disk.contents(&last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    // Within the last batch, before the frame that says that the journal ends.
    disk.flip_bit(&last, end - 60, 0);
    assert!(matches!(refused(&disk), OpenError::Read(ReadError::Damaged { .. })));
}

#[test]
fn a_bit_flip_in_a_table_is_found_and_the_rest_saved() {
    let disk = used_disk();
    let name = names(&disk, "table-").remove(0);
    disk.flip_bit(&name, 1_000, 0);
    let store = opened(&disk).unwrap().store;
    let error = store.for_each(&mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("tidegate store check"), "{error}");
    drop(store);
    assert_eq!(problems(&disk).len(), 1);
    let (saved, skipped) = salvaged(&disk);
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(saved.len() >= 200, "the journal is whole");
}

#[test]
fn a_bit_flip_in_a_table_index_is_refused_and_blocks_saved() {
    let disk = used_disk();
    let name = names(&disk, "table-").remove(0);
    let length = disk.contents(&name).unwrap().len() as u64;
    disk.flip_bit(&name, length - 70, 0);
    assert!(matches!(refused(&disk), OpenError::Read(ReadError::Damaged { file, .. }) if file == name));
    let (saved, skipped) = salvaged(&disk);
    assert!(saved == entries(0..500));
    assert_eq!(skipped.len(), 1, "{skipped:?}");
}

#[test]
fn a_missing_journal_file_is_refused() {
    for index in 0..3 {
        let disk = used_disk();
        let name = names(&disk, "journal-").remove(index);
        disk.remove(&name).unwrap();
        assert!(matches!(refused(&disk), OpenError::Read(ReadError::Missing { file }) if file == name));
    }
}

#[test]
fn a_missing_table_is_refused() {
    let disk = used_disk();
    let name = names(&disk, "table-").remove(0);
    disk.remove(&name).unwrap();
    let error = refused(&disk);
    assert!(error.to_string().contains("put it back"), "{error}");
    assert!(matches!(error, OpenError::Read(ReadError::Missing { file }) if file == name));
}

#[test]
fn a_missing_manifest_is_refused_and_everything_can_be_saved() {
    let disk = used_disk();
    disk.remove("MANIFEST").unwrap();
    assert!(matches!(refused(&disk), OpenError::Read(ReadError::Missing { file }) if file == "MANIFEST"));
    assert_eq!(problems(&disk).len(), 1);
    let (saved, skipped) = salvaged(&disk);
    assert!(saved == entries(0..500));
    assert_eq!(skipped.len(), 1, "{skipped:?}");
}

#[test]
fn a_damaged_manifest_is_refused() {
    let disk = used_disk();
    disk.flip_bit("MANIFEST", 20, 1);
    assert!(matches!(refused(&disk), OpenError::Read(ReadError::Damaged { file, .. }) if file == "MANIFEST"));
}
