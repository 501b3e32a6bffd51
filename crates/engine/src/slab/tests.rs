use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Insert,
    /// Removes the n-th of the live entries, counted around.
    Remove(usize),
    Shrink,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Insert),
        5 => any::<usize>().prop_map(Step::Remove),
        1 => Just(Step::Shrink),
    ];
    proptest::collection::vec(step, 0..1500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_like_a_map(steps in steps()) {
        let mut slab = Slab::new();
        let mut model = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Insert => {
                    let key = slab.insert(number.to_string());
                    prop_assert!(model.insert(key, number.to_string()).is_none());
                }
                Step::Remove(_) if model.is_empty() => prop_assert!(slab.is_empty()),
                Step::Remove(n) => {
                    let key = *model.keys().nth(n % model.len()).unwrap();
                    prop_assert_eq!(slab.remove(key), model.remove(&key));
                    prop_assert_eq!(slab.get(key), None);
                    prop_assert_eq!(slab.remove(key), None);
                }
                Step::Shrink => slab.shrink(),
            }
            prop_assert_eq!(slab.len(), model.len());
        }
        prop_assert!(slab.iter().eq(model.iter().map(|(key, value)| (*key, value))));
        let middle = model.len() as u32 / 2;
        let rest = model.range(middle..).map(|(key, value)| (*key, value));
        prop_assert!(slab.iter_from(middle).eq(rest));
    }
}

#[test]
fn gives_memory_back_after_a_peak() {
    let mut slab = Slab::new();
    let keys: Vec<u32> = (0..100_000_u64).map(|value| slab.insert(value)).collect();
    let peak = slab.heap_bytes();
    assert!(peak < 100_000 * 17 + 100_000, "16 bytes per slot and a little: {peak}");
    for key in keys.iter().filter(|key| **key != 50_000) {
        slab.remove(*key);
    }
    assert_eq!(slab.get(50_000), Some(&50_000));
    assert!(slab.heap_bytes() < 60_000, "one entry holds one chunk: {}", slab.heap_bytes());
    slab.remove(50_000);
    slab.shrink();
    assert_eq!(slab.heap_bytes(), 0);
    assert_eq!(slab.insert(1), 0, "an empty table starts again");
}

#[test]
fn fills_the_lowest_chunk_first() {
    let mut slab = Slab::new();
    for value in 0..1000_u32 {
        slab.insert(value);
    }
    slab.remove(900);
    slab.remove(130);
    assert_eq!(slab.insert(0), 130);
    assert_eq!(slab.insert(0), 900);
    assert_eq!(slab.insert(0), 1000);
}

#[test]
fn one_entry_that_comes_and_goes_keeps_its_chunk() {
    let mut slab = Slab::new();
    for value in 0..CHUNK as u32 {
        slab.insert(value);
    }
    for _ in 0..3 {
        let key = slab.insert(7);
        let held = slab.heap_bytes();
        slab.remove(key);
        assert_eq!(slab.heap_bytes(), held);
    }
}

#[test]
fn an_entry_with_a_niche_costs_no_extra_byte() {
    assert_eq!(size_of::<Slot<Box<str>>>(), size_of::<Box<str>>());
    assert_eq!(size_of::<Slot<(Box<str>, u64)>>(), size_of::<(Box<str>, u64)>());
}

#[test]
fn a_stale_key_finds_nothing() {
    let mut slab = GenSlab::new();
    let first = slab.insert("first");
    assert_eq!(slab.remove(first), Some("first"));
    let second = slab.insert("second");
    assert_eq!((first.index, slab.len()), (second.index, 1));
    assert_eq!(slab.get(first), None);
    assert_eq!(slab.get_mut(first), None);
    assert_eq!(slab.remove(first), None);
    assert_eq!(slab.get(second), Some(&"second"));
    slab.remove(second);
    slab.shrink();
    let third = slab.insert("third");
    assert_ne!(third, first, "the generation survives a shrink");
    assert!(slab.iter().eq([(third, &"third")]));
}

#[test]
fn generations_wrap() {
    let mut slab = GenSlab { slab: Slab::new(), next: u32::MAX };
    let last = slab.insert(1);
    slab.remove(last);
    let wrapped = slab.insert(2);
    assert_eq!((last.generation, wrapped.generation), (u32::MAX, 0));
    assert_eq!((slab.get(last), slab.get(wrapped)), (None, Some(&2)));
}

#[test]
fn a_held_key_is_not_handed_out() {
    let mut slab = Slab::new();
    let keys: Vec<u32> = (0..3).map(|value| slab.insert(value)).collect();
    assert_eq!(slab.withdraw(keys[1]), Some(1));
    assert_eq!((slab.get(keys[1]), slab.len()), (None, 2));
    assert_eq!((slab.remove(keys[1]), slab.withdraw(keys[1])), (None, None));
    assert_eq!(slab.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0, 2]);
    assert_ne!(slab.insert(3), keys[1]);
    slab.release(keys[1]);
    slab.release(keys[1]);
    assert_eq!(slab.insert(4), keys[1]);
    assert_eq!(slab.len(), 4);
}

#[test]
fn a_chunk_with_a_held_key_stays() {
    let mut slab = Slab::new();
    let key = slab.insert(1);
    let other = slab.insert(2);
    slab.withdraw(key);
    slab.remove(other);
    slab.shrink();
    slab.release(key);
    assert!(slab.is_empty());
    slab.shrink();
    assert_eq!(slab.heap_bytes(), 0);
}
