use std::collections::BTreeSet;

use proptest::prelude::*;

use super::State::{AwaitPubAck, AwaitPubComp, AwaitPubRec};
use super::*;

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

fn numbers<T>(inflight: &Inflight<T>) -> Vec<u16> {
    inflight.iter().map(|entry| entry.id().get()).collect()
}

#[test]
fn ids_count_up_and_finish_in_order() {
    let mut inflight = Inflight::new();
    for round in 0..200_000_u32 {
        let first = inflight.push(AwaitPubAck, round).unwrap();
        assert_eq!(u32::from(first.get()), round % 65_535 + 1, "zero is no id");
        assert_eq!(inflight.finish(first), Some(round));
    }
    assert!(inflight.is_empty());
}

#[test]
fn ids_in_use_are_skipped() {
    let mut inflight = Inflight::new();
    let stuck = inflight.push(AwaitPubRec, 0).unwrap();
    let mut seen = 0;
    for round in 1..70_000_u32 {
        let next = inflight.push(AwaitPubAck, round).unwrap();
        assert_ne!(next, stuck);
        seen += u32::from(next.get() == 65_535) + u32::from(next.get() == 2);
        assert_eq!(inflight.finish(next), Some(round));
    }
    assert_eq!(seen, 3);
    assert_eq!(numbers(&inflight), [1]);
}

#[test]
fn all_ids_can_be_in_flight_and_no_more() {
    let mut inflight = Inflight::new();
    for _ in 0..65_535 {
        inflight.push(AwaitPubAck, ()).unwrap();
    }
    assert_eq!(inflight.push(AwaitPubAck, ()), None);
    inflight.finish(id(777)).unwrap();
    assert_eq!(inflight.push(AwaitPubAck, ()), Some(id(777)));
    assert_eq!(inflight.push(AwaitPubAck, ()), None);
    assert_eq!(inflight.iter().next_back().map(InflightEntry::id), Some(id(777)));
}

#[test]
fn finishing_out_of_order_keeps_the_order_of_the_rest() {
    let mut inflight = Inflight::new();
    for item in 1..=6 {
        inflight.push(AwaitPubAck, item);
    }
    assert_eq!(inflight.finish(id(3)), Some(3));
    assert_eq!(inflight.finish(id(3)), None);
    assert_eq!(inflight.finish(id(1)), Some(1));
    assert_eq!(inflight.finish(id(6)), Some(6));
    assert_eq!(inflight.finish(id(700)), None);
    assert_eq!(numbers(&inflight), [2, 4, 5]);
    inflight.get_mut(id(4)).unwrap().state = AwaitPubComp;
    assert_eq!(inflight.get(id(4)).map(|entry| entry.state), Some(AwaitPubComp));
}

#[test]
fn entries_from_elsewhere_keep_their_ids_and_order() {
    let with =
        |numbers: &[u16]| Inflight::from_entries(numbers.iter().map(|number| (id(*number), AwaitPubRec, *number)));
    assert!(with(&[2, 65_535, 2]).is_none(), "an id is in use once");
    let mut inflight = with(&[65_534, 2, 65_535]).unwrap();
    assert_eq!(inflight.push(AwaitPubAck, 1), Some(id(1)));
    assert_eq!(inflight.push(AwaitPubAck, 3), Some(id(3)), "2 is in use");
    assert_eq!(numbers(&inflight), [65_534, 2, 65_535, 1, 3]);
    assert_eq!(inflight.finish(id(2)), Some(2));
    assert_eq!(inflight.finish(id(65_535)), Some(65_535));
    assert_eq!(numbers(&inflight), [65_534, 1, 3]);
    let drained: Vec<_> = inflight.drain().map(|entry| (entry.id().get(), entry.item)).collect();
    assert_eq!(drained, [(65_534, 65_534), (1, 1), (3, 3)]);
    assert_eq!(inflight.push(AwaitPubAck, 4), Some(id(4)));
}

#[test]
fn empty_tables_own_no_heap() {
    let mut inflight = Inflight::new();
    inflight.push(AwaitPubAck, 1_u64);
    inflight.finish(id(1));
    assert_eq!(inflight.entries.capacity(), 0);
    let mut received = ReceivedIds::default();
    received.insert(id(9));
    received.remove(id(9));
    assert_eq!(received.ids.capacity(), 0);
    assert_eq!(size_of::<InflightEntry<Option<Box<u8>>>>(), 16);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A small space of ids is made by starting shortly before the end with most others in use.
    #[test]
    fn inflight_behaves_like_a_list(start in 65_500..=65_535_u16, steps in proptest::collection::vec((0..3_u8, any::<usize>()), 1..400)) {
        let mut inflight = Inflight::from_entries([(id(start), AwaitPubAck, 0)]).unwrap();
        let mut model = vec![(start, 0)];
        for (number, (kind, pick)) in steps.into_iter().enumerate() {
            if kind > 0 {
                let new = inflight.push(AwaitPubAck, number).unwrap().get();
                prop_assert!(model.iter().all(|(other, _)| *other != new));
                model.push((new, number));
            } else if !model.is_empty() {
                // Old entries finish more often than young ones.
                let (old, item) = model.remove((pick % model.len()).min(pick / 7 % 5));
                prop_assert_eq!(inflight.finish(id(old)), Some(item));
                prop_assert!(inflight.get(id(old)).is_none());
            }
            prop_assert_eq!(inflight.len(), model.len());
        }
        let found: Vec<_> = inflight.iter().map(|entry| (entry.id().get(), entry.item)).collect();
        prop_assert_eq!(&found, &model);
        for (number, item) in model {
            prop_assert_eq!(inflight.get(id(number)).map(|entry| entry.item), Some(item));
        }
    }

    #[test]
    fn received_ids_behave_like_a_set(steps in proptest::collection::vec((any::<bool>(), 1..200_u16), 0..400)) {
        let mut received = ReceivedIds::default();
        let mut model = BTreeSet::new();
        for (add, number) in steps {
            if add {
                prop_assert_eq!(received.insert(id(number)), model.insert(number));
            } else {
                prop_assert_eq!(received.remove(id(number)), model.remove(&number));
            }
            prop_assert_eq!(received.contains(id(number)), add);
            prop_assert_eq!((received.len(), received.is_empty()), (model.len(), model.is_empty()));
        }
        prop_assert!(received.iter().map(PacketId::get).eq(model));
    }
}

#[test]
fn a_burst_begins_with_half_the_space_of_the_last() {
    let mut inflight = Inflight::new();
    for (messages, begins_with) in [(20, 1), (20, 16), (3, 16), (3, 8), (1, 4), (500, 1), (1, SPACE_MAX)] {
        let first = inflight.push(AwaitPubAck, 0).unwrap();
        let space = inflight.entries.capacity();
        assert!((begins_with..=2 * begins_with.max(4)).contains(&space), "{space} for {messages}");
        let others: Vec<_> = (1..messages).map(|round| inflight.push(AwaitPubAck, round).unwrap()).collect();
        for id in [first].into_iter().chain(others) {
            inflight.finish(id).unwrap();
        }
        assert_eq!(inflight.entries.capacity(), 0, "without entries it owns no heap");
    }
}
