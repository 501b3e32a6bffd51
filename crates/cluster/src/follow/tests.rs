use super::*;
use crate::Move;

fn table(epoch: u64, home: Option<(&str, u64, Option<u64>)>, moves: &[(u64, &str, &str)]) -> Table {
    let mut table = Table { epoch, ..Table::default() };
    table.lives.insert("me".to_owned(), 1);
    if let Some((node, since, by)) = home {
        table.give(0, node, since, by);
    }
    let a_move = |(id, from, to): &(u64, &str, &str)| Move {
        id: *id,
        partitions: vec![0],
        from: (*from).to_owned(),
        to: (*to).to_owned(),
    };
    table.moves = moves.iter().map(a_move).collect();
    table
}

/// The steps for partition 0 when these tables come one after the other.
fn last(tables: &[Table], remembered: &[(u16, u64)]) -> Vec<Step> {
    let mut follower = Follower::new("me", 1, remembered.iter().copied().collect());
    let mut steps = Vec::new();
    for table in tables {
        steps = follower.take(table);
    }
    let only = |partitions: &Vec<u16>| partitions.iter().all(|partition| *partition == 0);
    steps.retain(|step| !matches!(step, Step::Forget(partitions) if !only(partitions)));
    steps
}

#[test]
fn partitions_last_served_by_an_earlier_life_are_kept() {
    assert_eq!(last(&[table(5, Some(("me", 3, None)), &[])], &[(0, 3)]), [Step::Keep(vec![0])]);
    let begins = Step::Begin { partitions: vec![0], lost: true };
    let mut follower = Follower::new("me", 1, BTreeMap::from([(0, 2)]));
    assert_eq!(follower.take(&table(5, Some(("me", 3, None)), &[])).last(), Some(&begins));
    assert!(follower.serves(0) && !follower.serves(1));
    assert_eq!(follower.holdings(), BTreeMap::from([(0, 3)]));
}

#[test]
fn a_move_away_is_sent_and_then_forgotten_or_called_off() {
    let (here, goes) = (table(1, Some(("me", 1, None)), &[]), table(2, Some(("me", 1, None)), &[(9, "me", "you")]));
    let send = Step::Send { id: 9, partitions: vec![0], to: "you".into() };
    assert_eq!(last(&[here.clone(), goes.clone()], &[]), [send]);
    let gone = table(3, Some(("you", 3, Some(9))), &[]);
    assert_eq!(last(&[here.clone(), goes.clone(), gone], &[]), [Step::Forget(vec![0])]);
    let stays = table(3, Some(("me", 1, None)), &[]);
    assert_eq!(last(&[here, goes, stays], &[]), [Step::Resume(vec![0])]);
}

#[test]
fn what_arrives_is_taken_over_by_its_own_move_alone() {
    let comes = table(2, Some(("you", 1, None)), &[(9, "you", "me")]);
    let expect = |steps: Vec<Step>| matches!(steps.last(), Some(Step::Expect { id: 9, .. }));
    assert!(expect(last(std::slice::from_ref(&comes), &[])));
    let taken = table(4, Some(("me", 3, Some(9))), &[]);
    assert_eq!(last(&[comes.clone(), taken], &[]), [Step::TakeOver { id: 9, partitions: vec![0] }]);
    let orphan = table(4, Some(("me", 4, None)), &[]);
    let begins = [Step::Forget(vec![0]), Step::Begin { partitions: vec![0], lost: true }];
    assert_eq!(last(&[comes.clone(), orphan], &[]), begins);
    let stays = table(4, Some(("you", 1, None)), &[]);
    assert_eq!(last(&[comes, stays], &[]), [Step::Forget(vec![0])]);
}

#[test]
fn a_life_that_is_not_meant_serves_nothing_and_keeps_images() {
    let mut follower = Follower::new("me", 2, BTreeMap::from([(0, 1)]));
    assert_eq!(follower.take(&table(1, Some(("me", 1, None)), &[])), []);
    assert!(!follower.is_member() && !follower.serves(0));
    assert_eq!(follower.holdings(), BTreeMap::from([(0, 1)]));
    let mut mine = table(2, Some(("me", 1, None)), &[]);
    mine.lives.insert("me".to_owned(), 2);
    assert_eq!(follower.take(&mine).last(), Some(&Step::Keep(vec![0])));
    assert!(follower.serves(0));
    assert_eq!(follower.take(&mine), []);
}

#[test]
fn a_later_life_says_what_an_earlier_one_has_fetched() {
    let mut table = table(5, Some(("dead", 2, None)), &[]);
    table.inherit(0, "me", 6, true);
    table.epoch = 6;
    let mut follower = Follower::new("me", 1, BTreeMap::new());
    let _ = follower.take(&table);
    assert_eq!(follower.fetched(&table), BTreeMap::new());
    assert!(follower.restored(0, 6));
    assert_eq!(follower.fetched(&table), BTreeMap::from([(0, 6)]));
    let mut later = Follower::new("me", 2, follower.holdings());
    let _ = later.take(&table);
    assert_eq!(later.fetched(&table), BTreeMap::new(), "it is no member yet");
    table.lives.insert("me".to_owned(), 2);
    table.epoch = 7;
    let _ = later.take(&table);
    assert_eq!(later.fetched(&table), BTreeMap::from([(0, 6)]));
}
