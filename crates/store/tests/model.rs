//! Random operations, merges and restarts against a map in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_store::operation::{delete, put};
use tidegate_store::{Disk, Settings, SimulatedDisk, Stepped, keep_all, open};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Action {
    Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Step,
    Merge(usize),
    MergeAll,
    Load { from: Vec<u8>, to: Vec<u8>, bytes: usize },
    Restart { end: bool },
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(0_u8..4, 0..4)
}

fn action() -> impl Strategy<Value = Action> {
    let value = prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), 2_000..2_100)];
    let batch = vec((key(), proptest::option::weighted(0.7, value)), 0..8);
    prop_oneof![
        8 => batch.prop_map(Action::Batch),
        6 => Just(Action::Step),
        2 => (1_usize..20).prop_map(Action::Merge),
        1 => Just(Action::MergeAll),
        2 => (key(), key(), 0_usize..300).prop_map(|(from, to, bytes)| Action::Load { from, to, bytes }),
        1 => any::<bool>().prop_map(|end| Action::Restart { end }),
    ]
}

fn start(disk: &SimulatedDisk) -> Stepped {
    let settings = Settings {
        segment_bytes: 8_192,
        merge_min_bytes: 0,
        merge_memory_bytes: 12_000,
        min_free_bytes: 0,
        ..Settings::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    open(disk, settings, keep_all()).unwrap().store.stepped(Box::new(|_: u16, _: u64| {}))
}

fn contents(store: &Stepped) -> Model {
    let mut found = Vec::new();
    store.for_each(&mut |key, value| found.push((key.to_vec(), value.to_vec()))).unwrap();
    assert!(found.is_sorted_by(|left, right| left.0 < right.0));
    found.into_iter().collect()
}

fn commit(store: &mut Stepped) {
    while !store.step() {}
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_a_map(actions in vec(action(), 0..80)) {
        let disk = SimulatedDisk::new(1);
        let (mut store, mut model, mut sequence) = (start(&disk), Model::new(), 0);
        for action in actions {
            match action {
                Action::Batch(operations) => {
                    let mut batch = Vec::new();
                    for (key, value) in operations {
                        if let Some(value) = value {
                            put(&mut batch, &key, &value).unwrap();
                            model.insert(key, value);
                        } else {
                            delete(&mut batch, &key).unwrap();
                            model.remove(&key);
                        }
                    }
                    sequence += 1;
                    store.submit(0, sequence, batch).unwrap();
                }
                Action::Step => drop(store.step()),
                Action::Merge(entries) => drop(store.merge(entries).unwrap()),
                Action::MergeAll => while store.merge(1_000).unwrap() {},
                Action::Load { from, to, bytes } => {
                    commit(&mut store);
                    let loaded = store.load(&from, &to, bytes).unwrap();
                    let mut expected: Vec<_> = Vec::new();
                    if from < to {
                        expected.extend(model.range(from..to).map(|(key, value)| (key.clone(), value.clone())));
                    }
                    let count = loaded.entries.len();
                    prop_assert_eq!(&loaded.entries[..], &expected[..count]);
                    prop_assert_eq!(loaded.next.as_ref(), expected.get(count).map(|(key, _)| key));
                    prop_assert!(count > 0 || expected.is_empty());
                }
                Action::Restart { end } => {
                    commit(&mut store);
                    prop_assert!(contents(&store) == model);
                    if end {
                        store.end();
                    }
                    drop(store);
                    disk.restart();
                    store = start(&disk);
                }
            }
        }
        commit(&mut store);
        prop_assert!(contents(&store) == model);
    }
}
