use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{BYTES_PER_OPERATION, Run};
use crate::operation::{delete, put};

/// Keys with a number behind few heads, in and out of order, and keys that look almost like them.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let head = prop_oneof![Just(*b"queue    a"), Just(*b"queue    b"), Just([0; 10]), Just([0xff; 10])];
    let number = prop_oneof![0..20_u64, Just(u64::MAX), any::<u64>()];
    let numbered = (head, number).prop_map(|(head, number)| [&head[..], &number.to_be_bytes()].concat());
    let tail = proptest::collection::vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 0..12);
    prop_oneof![
        4 => numbered.clone(),
        1 => (numbered, tail.clone()).prop_map(|(key, tail)| [key, tail].concat()),
        1 => (0..18_usize).prop_map(|length| vec![0; length]),
        1 => tail.prop_map(|tail| [b"queue    a", &tail[..]].concat()),
    ]
}

proptest! {
    #[test]
    fn the_newest_operation_of_each_key_is_kept_in_order(
        files in proptest::collection::vec(
            proptest::collection::vec((key(), proptest::option::of(0..200_u8)), 0..60), 0..4),
    ) {
        let (mut run, mut wanted) = (Run::default(), BTreeMap::new());
        for (number, operations) in files.into_iter().enumerate() {
            let mut batch = Vec::new();
            for (key, value) in operations {
                match value {
                    Some(length) => put(&mut batch, &key, &vec![length; length.into()]).unwrap(),
                    None => delete(&mut batch, &key).unwrap(),
                }
                wanted.insert(key, value.map(|length| vec![length; length.into()]));
            }
            run.add(u32::try_from(number).unwrap(), 0, &batch).unwrap();
            run.files.push(batch);
        }
        let (mut sorted, mut found) = (run.sorted(), Vec::new());
        while let Some((key, value)) = sorted.current() {
            found.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            sorted.advance();
        }
        prop_assert_eq!(found, wanted.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn places_of_operations_are_part_of_the_memory_of_a_merge() {
    let (mut run, mut batch) = (Run::default(), Vec::new());
    for number in 0..100_u64 {
        put(&mut batch, &[&b"queue    a"[..], &number.to_be_bytes()].concat(), b"").unwrap();
        delete(&mut batch, format!("key {number}").as_bytes()).unwrap();
    }
    run.add(0, 0, &batch).unwrap();
    let bytes = batch.len() as u64;
    run.files.push(batch);
    assert_eq!(run.bytes(), bytes + 200 * BYTES_PER_OPERATION);
}
