//! Stores that an earlier version wrote.

use super::*;

/// A store with journal files of format 1: three batches, two of them synced, and an end that may be cut.
fn store_of_format_1(cut: usize) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let salt = 77_u32;
    let mut file = b"TIDEJRNL".to_vec();
    file.extend_from_slice(&1_u32.to_le_bytes());
    file.extend_from_slice(&salt.to_le_bytes());
    file.extend_from_slice(&1_u64.to_le_bytes());
    file.extend_from_slice(&1_u64.to_le_bytes());
    file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
    file.resize(4_096, 0);
    for index in 0..3_u64 {
        let mut payload = Vec::new();
        put(&mut payload, &key(index), &[index as u8; 100]).unwrap();
        let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
        frame.extend_from_slice(&(index + 1).to_le_bytes());
        frame.extend_from_slice(&(index + 1).min(3).to_le_bytes());
        frame.extend_from_slice(&payload);
        file.extend_from_slice(&crc32c::crc32c_append(salt, &frame).to_le_bytes());
        file.extend_from_slice(&frame);
    }
    file.truncate(file.len() - cut);
    file.resize(16_384, 0);
    let facts = "tidegate-store 1\nnext 2\nmerged 1\njournal 1 1\n";
    let manifest = format!("{facts}crc32c {:08x}\n", crc32c::crc32c(facts.as_bytes()));
    disk.put("journal-000000000001.log", &file);
    disk.put("MANIFEST", manifest.as_bytes());
    disk
}

#[test]
fn a_store_of_format_1_continues_in_format_2() {
    let disk = store_of_format_1(0);
    assert!(problems(&disk).is_empty());
    let mut store = stepped(&disk);
    write(&mut store, 3..200);
    drop(store);
    disk.restart();
    let newest = disk.contents(names(&disk, "journal-").last().unwrap()).unwrap();
    assert_eq!(newest[8..12], [2, 0, 0, 0]);
    let Opened { store, report } = opened(&disk).unwrap();
    assert!(report.torn.is_none() && report.frames == 200, "{report:?}");
    assert_eq!(contents(&store), entries(0..200));
    let mut store = store.stepped(Box::new(|_: u16, _: u64| {}));
    while store.merge(100).unwrap() {}
    drop(store);
    disk.restart();
    assert_eq!(contents(&opened(&disk).unwrap().store), entries(0..200));
}

#[test]
fn a_torn_end_and_damage_of_format_1_are_distinguished() {
    let disk = store_of_format_1(60);
    let Opened { store, report } = opened(&disk).unwrap();
    assert!(report.torn.is_some(), "{report:?}");
    assert_eq!(contents(&store), entries(0..2));
    drop(store);
    let disk = store_of_format_1(0);
    disk.flip_bit("journal-000000000001.log", 4_096 + 139 + 60, 1);
    assert!(matches!(refused(&disk), OpenError::Read(ReadError::Damaged { offset: 4_235, .. })));
    assert_eq!(problems(&disk).len(), 1);
    assert_eq!(salvaged(&disk).0.len(), 2);
}
