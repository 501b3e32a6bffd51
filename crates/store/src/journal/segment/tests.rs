use super::*;
use crate::journal::frame::append;

const TWO: Salt = Salt::Two { header: 0x1234_5678, payload: 0x9ABC_DEF0 };
const ONE: Salt = Salt::One(0x1234_5678);
const FIRST: u64 = 1_000;

/// Frames with consecutive numbers from a number on, each with a payload. Those below `durable` were synced.
fn frames(salt: Salt, first: u64, durable: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, payload) in (first..).zip(payloads) {
        append(&mut bytes, number, payload);
    }
    frame::seal(&mut bytes, salt, durable);
    bytes
}

/// Bytes of a peer that look like a header at every sixteenth place: a length of a megabyte, and a number that may be
/// the next one but a few.
fn hostile(bytes: usize) -> Vec<u8> {
    let mut unit = Vec::new();
    unit.extend_from_slice(&(1_u32 << 20).to_le_bytes());
    unit.extend_from_slice(&(FIRST + 20).to_le_bytes());
    unit.extend_from_slice(&(1_u32 << 20).to_le_bytes());
    unit.into_iter().cycle().take(bytes).collect()
}

/// The end of three frames in a file that held the bytes of `old` before.
fn ends_in(old: &[u8], salt: Salt) -> Tail {
    let mut bytes = old.to_vec();
    let new = frames(salt, FIRST, FIRST, &[vec![1; 100], vec![2; 100], vec![3; 100]]);
    bytes[..new.len()].copy_from_slice(&new);
    let mut walk = Frames { bytes: &bytes, salt, position: 0, expected: FIRST };
    assert_eq!(walk.by_ref().count(), 3);
    tail(&bytes, walk.position, walk.expected, salt)
}

#[test]
fn hostile_bytes_behind_the_end_cost_no_payload() {
    let bytes = hostile(4 << 20);
    for shift in 0..16 {
        let tail = ends_in(&bytes[shift..], TWO);
        assert_eq!((tail.work.hashed, tail.frames, tail.durable), (0, 0, FIRST + 3));
        assert!(tail.work.headers <= bytes.len() as u64 / 16, "{tail:?}");
    }
}

#[test]
fn hostile_bytes_in_an_old_file_cost_a_bounded_search() {
    let bytes = hostile(4 << 20);
    let tail = ends_in(&bytes, ONE);
    assert!(tail.work.gave_up && tail.work.hashed <= FORMAT_1_TIMES * bytes.len() as u64, "{tail:?}");
    assert_eq!(tail.durable, FIRST + 3);
    let plain = ends_in(&vec![7; 1 << 20], ONE);
    assert_eq!(plain.work, Work::default());
}

#[test]
fn frames_of_an_earlier_life_of_a_file_cost_no_payload() {
    let payloads: Vec<_> = (0..2_000_u64).map(|index| vec![index as u8; 200]).collect();
    let other = Salt::Two { header: 1, payload: 2 };
    let tail = ends_in(&frames(other, FIRST, FIRST, &payloads), TWO);
    assert_eq!((tail.work.hashed, tail.bytes), (0, 0));
}

#[test]
fn damage_is_found_behind_megabytes_of_hostile_bytes() {
    // The synced one is broken, a large one whose payload is hostile is broken too, a whole one says so.
    let mut bytes = frames(TWO, FIRST, FIRST, &[vec![1; 100]]);
    bytes[60] ^= 1;
    let large = frames(TWO, FIRST + 1, FIRST + 1, &[hostile(2 << 20)]);
    let witness = bytes.len() + large.len();
    bytes.extend(large);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes.extend(frames(TWO, FIRST + 2, FIRST + 2, &[vec![3; 100]]));
    bytes.extend(hostile(2 << 20));
    let tail = tail(&bytes, 0, FIRST, TWO);
    assert_eq!((tail.frames, tail.durable, tail.witness), (1, FIRST + 2, witness as u64));
    assert!(tail.work.hashed <= bytes.len() as u64, "{tail:?}");
}

#[test]
fn a_frame_that_ends_with_pages_of_zeros_is_a_witness() {
    for salt in [ONE, TWO] {
        let mut bytes = frames(salt, FIRST, FIRST, &[vec![1; 100]]);
        bytes[60] ^= 1;
        bytes.extend(frames(salt, FIRST + 1, FIRST + 1, &[vec![0; 20_000]]));
        bytes.resize(65_536, 0);
        assert_eq!(tail(&bytes, 0, FIRST, salt).durable, FIRST + 1);
    }
}

#[test]
fn numbers_that_cannot_be_so_near_are_not_tried() {
    let mut bytes = vec![0; 240];
    bytes.extend(frames(TWO, FIRST + 11, FIRST, &[vec![1; 100]]));
    assert_eq!(tail(&bytes, 0, FIRST, TWO).work.headers, 0);
    assert_eq!(tail(&bytes, 0, FIRST + 1, TWO).frames, 1);
}
