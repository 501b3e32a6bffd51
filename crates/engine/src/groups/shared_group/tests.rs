use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn group(strategy: SharedStrategy, members: u32) -> Group<u32, ()> {
    let mut group = Group::new(strategy);
    for receiver in 0..members {
        assert!(group.join(member(receiver), true));
    }
    group
}

fn member(receiver: u32) -> Member<u32, ()> {
    Member { receiver, options: (), identity: u64::from(receiver) + 1000 }
}

fn pick(group: &mut Group<u32, ()>, hash: u64) -> Option<u32> {
    pick_but(group, hash, &[])
}

fn pick_but(group: &mut Group<u32, ()>, hash: u64, not: &[u32]) -> Option<u32> {
    let place = group.pick(hash, hash, |member| not.contains(&member.receiver))?;
    group.members().get(place).map(|member| member.receiver)
}

fn picks(group: &mut Group<u32, ()>, count: u64) -> Vec<u32> {
    (0..count).filter_map(|hash| pick(group, hash)).collect()
}

#[test]
fn each_in_turn() {
    let mut group = group(SharedStrategy::RoundRobin, 3);
    assert_eq!(picks(&mut group, 7), [0, 1, 2, 0, 1, 2, 0]);
    group.leave(&1).unwrap();
    assert_eq!(picks(&mut group, 3), [2, 0, 2]);
    group.join(member(5), true);
    assert_eq!(picks(&mut group, 4), [5, 0, 2, 5]);
    group.set_online(&0, false);
    assert_eq!(picks(&mut group, 4), [2, 5, 2, 5]);
    group.set_online(&0, true);
    assert_eq!(picks(&mut group, 3), [0, 2, 5]);
    assert_eq!(pick_but(&mut group, 0, &[2, 5]), Some(0));
    assert_eq!(pick_but(&mut group, 0, &[0, 2, 5]), None);
}

#[test]
fn the_favourite_keeps_getting_all() {
    let mut group = group(SharedStrategy::Sticky, 3);
    assert_eq!(picks(&mut group, 3), [0, 0, 0]);
    assert_eq!(pick_but(&mut group, 0, &[0]), Some(1), "this message only");
    assert_eq!(picks(&mut group, 2), [0, 0]);
    assert!(!group.join(member(0), true), "subscribing again changes nothing");
    assert_eq!(pick(&mut group, 0), Some(0));
    group.set_online(&0, false);
    assert_eq!(picks(&mut group, 2), [1, 1]);
    group.set_online(&0, true);
    group.leave(&2).unwrap();
    assert_eq!(picks(&mut group, 2), [1, 1]);
    group.leave(&1).unwrap();
    assert_eq!(picks(&mut group, 2), [0, 0]);
}

#[test]
fn members_that_are_away_come_last() {
    for strategy in
        [SharedStrategy::RoundRobin, SharedStrategy::Sticky, SharedStrategy::HashClient, SharedStrategy::HashTopic]
    {
        let mut group = group(strategy, 4);
        for away in [0, 1, 2] {
            assert!(group.set_online(&away, false));
            assert!(!group.set_online(&away, false));
        }
        assert_eq!(group.online(), 1);
        assert_eq!(picks(&mut group, 5), [3; 5], "{strategy:?}");
        assert!(pick_but(&mut group, 1, &[3]).is_some_and(|away| away < 3));
        group.leave(&3).unwrap();
        assert_eq!(picks(&mut group, 5).len(), 5, "there is someone to keep it for");
        for receiver in 0..3 {
            group.leave(&receiver).unwrap();
        }
        assert!(group.is_empty() && pick(&mut group, 1).is_none());
    }
}

#[test]
fn hashing_moves_only_what_the_leaver_had() {
    let mut group = group(SharedStrategy::HashTopic, 5);
    let before = picks(&mut group, 5000);
    for receiver in 0..5 {
        let share = before.iter().filter(|picked| **picked == receiver).count();
        assert!((850..1150).contains(&share), "member {receiver} has {share} of 5000 topics");
    }
    group.set_online(&2, false);
    let without = picks(&mut group, 5000);
    assert!(before.iter().zip(&without).all(|(before, without)| before == without || *before == 2));
    group.set_online(&2, true);
    assert_eq!(picks(&mut group, 5000), before, "a member that returns gets the same messages");
}

#[test]
fn each_strategy_looks_at_its_own_hash() {
    let mut by_client = group(SharedStrategy::HashClient, 9);
    let mut by_topic = group(SharedStrategy::HashTopic, 9);
    for other in 0..50 {
        assert_eq!(by_client.pick(7, other, |_| false), by_client.pick(7, 0, |_| false));
        assert_eq!(by_topic.pick(other, 7, |_| false), by_topic.pick(0, 7, |_| false));
    }
}

proptest! {
    #[test]
    fn pick_finds_each_member_that_can_take_a_message(
        strategy in 0..4_usize,
        steps in proptest::collection::vec((0..6_u8, 0..8_u32, any::<bool>(), any::<u64>()), 0..200),
    ) {
        let strategies =
            [SharedStrategy::RoundRobin, SharedStrategy::Sticky, SharedStrategy::HashClient, SharedStrategy::HashTopic];
        let mut group = Group::new(strategies[strategy]);
        let mut model = BTreeMap::new();
        for (kind, receiver, flag, hash) in steps {
            match kind {
                0 => prop_assert_eq!(group.join(member(receiver), flag), model.insert(receiver, flag).is_none()),
                1 => prop_assert_eq!(group.leave(&receiver).is_some(), model.remove(&receiver).is_some()),
                2 => {
                    let news = model.get_mut(&receiver).is_some_and(|online| std::mem::replace(online, flag) != flag);
                    prop_assert_eq!(group.set_online(&receiver, flag), news);
                }
                _ => {
                    let online = model.iter().any(|(other, online)| *online && *other != receiver);
                    let any = model.keys().any(|other| *other != receiver);
                    let picked = pick_but(&mut group, hash, &[receiver]);
                    prop_assert_eq!(picked.is_some(), any);
                    prop_assert!(picked.is_none_or(|picked| picked != receiver && model[&picked] == online));
                }
            }
            prop_assert_eq!(group.len(), model.len());
            prop_assert_eq!(group.online(), model.values().filter(|online| **online).count());
        }
    }
}
