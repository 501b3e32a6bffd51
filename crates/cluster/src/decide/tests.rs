use std::collections::BTreeSet;

use super::*;
use crate::Sighting;
use crate::{Follower, GROUP_VERSION, MOVE_AT_ONCE, PARTITIONS, Step};

fn seen(nodes: &[(&str, u64)]) -> Seen {
    let mut seen = Seen { may_bury: true, may_move: true, may_balance: true, ..Seen::default() };
    for (name, life) in nodes {
        seen.members.insert((*name).to_owned(), Sighting { life: *life, settled: true });
        seen.adverts.insert((*name).to_owned(), Advert { life: *life, ..Advert::default() });
    }
    seen
}

fn counts(table: &Table) -> Vec<usize> {
    table.lives.keys().map(|name| table.of(name).len()).collect()
}

/// Decides, and has every move arrive, until nothing changes any more; says how many partitions have moved.
fn settle(mut table: Table, seen: &mut Seen) -> (Table, usize) {
    let mut moved = 0;
    while let Some(next) = decide(&table, seen) {
        assert_eq!(next.epoch, table.epoch + 1);
        for it in next.moves.iter().filter(|it| !table.moves.contains(it)) {
            assert!(it.partitions.len() <= MOVE_AT_ONCE);
            moved += it.partitions.len();
            seen.adverts.get_mut(&it.to).unwrap().arrived.insert(it.id);
        }
        table = next;
    }
    (table, moved)
}

#[test]
fn newcomers_get_their_share_with_the_fewest_moves() {
    let (one, moved) = settle(Table::default(), &mut seen(&[("a", 1)]));
    assert_eq!((counts(&one), moved), (vec![1_024], 0));
    let (two, moved) = settle(one, &mut seen(&[("a", 1), ("b", 2)]));
    assert_eq!((counts(&two), moved), (vec![512, 512], 512));
    let (three, moved) = settle(two, &mut seen(&[("a", 1), ("b", 2), ("c", 3)]));
    assert_eq!((counts(&three), moved), (vec![342, 341, 341], 341));
    assert_eq!(decide(&three, &seen(&[("a", 1), ("b", 2), ("c", 3)])), None);
}

/// The same, where the leader has links with these nodes only.
fn linked(nodes: &[(&str, u64)], linked: &[&str]) -> Seen {
    Seen { linked: Some(linked.iter().map(|name| (*name).to_owned()).collect()), ..seen(nodes) }
}

#[test]
fn a_member_without_links_gets_no_partitions() {
    let (nodes, all) = ([("a", 1), ("b", 2), ("z", 3)], ["a", "b", "z"]);
    let (two, _) = settle(Table::default(), &mut seen(&nodes[..2]));
    // It becomes a member, and no partition moves to it, so that none waits for a link that never comes.
    let (three, moved) = settle(two, &mut linked(&nodes, &["a", "b"]));
    assert_eq!((counts(&three), moved), (vec![512, 512, 0], 0));
    // Nor does it get partitions of a dead node.
    let dead = decide(&three, &linked(&[("a", 1), ("z", 3)], &["a"])).unwrap();
    assert_eq!(counts(&dead), [1_024, 0]);
    let (even, _) = settle(three, &mut linked(&nodes, &all));
    assert_eq!(counts(&even), [342, 341, 341], "with a link it gets its share");
    // Its partitions stay there when the link ends.
    assert_eq!(decide(&even, &linked(&nodes, &["a", "b"])), None);
}

#[test]
fn leaving_nodes_hand_over_to_members_without_links() {
    // All with links leave: the members without links are the only ones that can serve the partitions.
    let (nodes, near) = ([("a", 1), ("b", 2), ("z", 3)], ["a", "b"]);
    let (three, _) = settle(settle(Table::default(), &mut seen(&nodes[..2])).0, &mut linked(&nodes, &near));
    let mut leaving = linked(&nodes, &near);
    for name in near {
        leaving.adverts.get_mut(name).unwrap().leaving = true;
    }
    assert_eq!(counts(&settle(three.clone(), &mut leaving).0), [0, 0, 1_024]);
    // So are they for partitions of a dead node beside a leader that leaves.
    leaving.members.remove("b");
    assert_eq!(counts(&decide(&three, &leaving).unwrap()), [512, 512]);
}

#[test]
fn a_leader_without_partitions_or_links_gives_itself_none() {
    let nodes = [("a", 1), ("b", 2), ("z", 3)];
    let (three, _) = settle(Table::default(), &mut linked(&nodes, &["a", "b"]));
    let (two, _) = settle(Table::default(), &mut seen(&nodes[..2]));
    assert_eq!(counts(&three), [342, 341, 341], "before the first partitions there are no links");
    let members = decide(&two, &linked(&nodes, &["z"])).unwrap();
    assert_eq!(counts(&members), [512, 512, 0]);
    let dead = decide(&members, &linked(&[("b", 2), ("z", 3)], &["z"])).unwrap();
    assert_eq!(counts(&dead), [1_024, 0]);
}

/// The number of partitions of each node, and the number that its weight asks for.
fn parts(table: &Table, seen: &Seen) -> Vec<(f64, f64)> {
    let weight = |name: &String| f64::from(seen.adverts[name].weight.0);
    let all: f64 = table.lives.keys().map(weight).sum();
    let part = |name: &String| (f64::from(table.of(name).len() as u16), f64::from(PARTITIONS) * weight(name) / all);
    table.lives.keys().map(part).collect()
}

#[test]
fn shares_follow_the_weights_of_nodes_with_few_moves() {
    for seed in 0..200_u64 {
        let random = |at: u64| (seed * 1_000 + at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let names: Vec<String> = (0..2 + random(0) % 12).map(|at| format!("n{at:02}")).collect();
        let nodes: Vec<(&str, u64)> = names.iter().zip(1..).map(|(name, life)| (name.as_str(), life)).collect();
        let mut seen = seen(&nodes);
        for (at, name) in (0..).zip(&names) {
            seen.adverts.get_mut(name).unwrap().weight = Weight(50 + (random(1 + at) % 251) as u16);
        }
        let near = |table: &Table, seen: &Seen| {
            let is_near = |(has, part): &(f64, f64)| (has - part).abs() < 1.0;
            assert!(parts(table, seen).iter().all(is_near), "seed {seed}: {:?}", parts(table, seen));
        };
        let (first, moved) = settle(Table::default(), &mut seen);
        assert_eq!(moved, 0, "seed {seed}: partitions placed at once stay");
        near(&first, &seen);
        // A node gets another weight: only the differences move.
        seen.adverts.get_mut(&names[0]).unwrap().weight = Weight(400);
        let (second, moved) = settle(first.clone(), &mut seen);
        near(&second, &seen);
        let grown = second.of(&names[0]).len().saturating_sub(first.of(&names[0]).len());
        assert!(moved <= grown + names.len(), "seed {seed}: {moved} moved, {grown} more");
        // One dies: the partitions of the others stay where they are.
        seen.members.remove(&names[1]);
        let (third, moved) = settle(second, &mut seen);
        near(&third, &seen);
        assert!(moved <= names.len(), "seed {seed}: {moved} moved");
    }
}

#[test]
fn a_weight_out_of_range_counts_as_the_nearest() {
    let mut seen = seen(&[("a", 1), ("b", 2)]);
    seen.adverts.get_mut("a").unwrap().weight = Weight(0);
    seen.adverts.get_mut("b").unwrap().weight = Weight(u16::MAX);
    let (table, _) = settle(Table::default(), &mut seen);
    assert_eq!(counts(&table), [1, 1_023]);
}

#[test]
fn only_partitions_of_dead_nodes_move() {
    let (three, _) = settle(Table::default(), &mut seen(&[("a", 1), ("b", 2), ("c", 3)]));
    let next = decide(&three, &seen(&[("a", 1), ("c", 3)])).unwrap();
    assert_eq!((counts(&next), next.moves.len()), (vec![512, 512], 0));
    for partition in 0..PARTITIONS {
        let (before, after) = (three.home(partition).unwrap(), next.home(partition).unwrap());
        assert!(before.node == "b" || before == after, "{partition}");
        assert!(before.node != "b" || (after.since, after.by) == (next.epoch, None), "{partition}");
    }
}

#[test]
fn an_unseen_node_is_not_dead_before_the_leader_watched_a_lease() {
    let (two, _) = settle(Table::default(), &mut seen(&[("a", 1), ("b", 2)]));
    assert_eq!(decide(&two, &Seen { may_bury: false, ..seen(&[("a", 1)]) }), None);
}

#[test]
fn another_life_takes_its_place_when_the_earlier_one_has_ended() {
    let (two, _) = settle(Table::default(), &mut seen(&[("a", 1), ("b", 2)]));
    let mut seen = seen(&[("a", 1), ("b", 7)]);
    seen.members.get_mut("b").unwrap().settled = false;
    assert_eq!(decide(&two, &seen), None);
    seen.adverts.get_mut("b").unwrap().after = Some(5);
    assert_eq!(decide(&two, &seen), None);
    seen.adverts.get_mut("b").unwrap().after = Some(2);
    let next = decide(&two, &seen).unwrap();
    assert_eq!((next.lives["b"], &next.homes), (7, &two.homes));
    // Or when no process of that name can have a lease any more.
    seen.adverts.get_mut("b").unwrap().after = None;
    seen.members.get_mut("b").unwrap().settled = true;
    assert_eq!(decide(&two, &seen).unwrap().lives["b"], 7);
    // Not before it has said where it is.
    seen.adverts.remove("b");
    assert_eq!(decide(&two, &seen), None);
}

#[test]
fn a_node_that_leaves_gives_everything_away_first() {
    let (three, _) = settle(Table::default(), &mut seen(&[("a", 1), ("b", 2), ("c", 3)]));
    let mut leaves = seen(&[("a", 1), ("b", 2), ("c", 3)]);
    leaves.adverts.get_mut("b").unwrap().leaving = true;
    let (table, moved) = settle(three.clone(), &mut leaves);
    assert_eq!((counts(&table), moved), (vec![512, 0, 512], 341));
    let same = |partition: &u16| table.home(*partition) == three.home(*partition);
    assert!((0..PARTITIONS).all(|it| same(&it) || table.home(it).unwrap().by.is_some()));
    // Alone it keeps its partitions: there is no other node to give them to.
    let (one, _) = settle(Table::default(), &mut seen(&[("a", 1)]));
    let mut alone = seen(&[("a", 1)]);
    alone.adverts.get_mut("a").unwrap().leaving = true;
    assert_eq!(decide(&one, &alone), None);
}

#[test]
fn a_node_that_was_not_asked_is_a_member_without_a_share() {
    let wants_no_share = |seen: &mut Seen, name: &str| {
        let advert = seen.adverts.get_mut(name).unwrap();
        (advert.leaving, advert.stays) = (true, true);
    };
    let mut fresh = seen(&[("a", 1), ("b", 2)]);
    wants_no_share(&mut fresh, "a");
    wants_no_share(&mut fresh, "b");
    let (table, _) = settle(Table::default(), &mut fresh);
    assert_eq!((table.lives.len(), counts(&table)), (2, vec![0, 0]));
    let mut asked = seen(&[("a", 1), ("b", 2)]);
    wants_no_share(&mut asked, "b");
    let (table, _) = settle(table, &mut asked);
    assert_eq!(counts(&table), [PARTITIONS as usize, 0]);
    let begins = |table: &Table| Follower::new("a", 1, BTreeMap::new()).take(table);
    let lost = |table: &Table| begins(table).iter().any(|step| matches!(step, Step::Begin { lost: true, .. }));
    assert!(!lost(&table), "no node had partitions before");
    let mut later = table.clone();
    later.epoch += 1;
    assert!(lost(&later), "a life of this node had them before");
    // Better there than nowhere.
    let mut dead = seen(&[("b", 2)]);
    wants_no_share(&mut dead, "b");
    let (table, _) = settle(table, &mut dead);
    assert_eq!(counts(&table), [PARTITIONS as usize]);
}

#[test]
fn a_node_that_stays_inherits_before_one_that_ends() {
    let (table, _) = settle(Table::default(), &mut seen(&[("b", 1), ("c", 2), ("d", 3)]));
    let leaves = |seen: &mut Seen, name: &str, stays: bool| {
        let advert = seen.adverts.get_mut(name).unwrap();
        (advert.leaving, advert.stays) = (true, stays);
    };
    let mut dead = Seen { may_move: false, ..seen(&[("b", 1), ("d", 3)]) };
    leaves(&mut dead, "b", false);
    leaves(&mut dead, "d", true);
    let next = decide(&table, &dead).unwrap();
    assert_eq!(next.of("b"), table.of("b"), "it is about to end");
    assert_eq!(next.of("d").len(), table.of("d").len() + table.of("c").len());
    leaves(&mut dead, "d", false);
    let next = decide(&table, &dead).unwrap();
    assert!((0..PARTITIONS).all(|it| next.home(it).unwrap().node != "c"), "no other node is there");
}

#[test]
fn a_move_ends_by_its_arrival_or_is_called_off() {
    let (one, _) = settle(Table::default(), &mut seen(&[("a", 1)]));
    let both = seen(&[("a", 1), ("b", 2)]);
    let moving = decide(&one, &both).unwrap();
    let [it] = moving.moves.as_slice() else { panic!("{:?}", moving.moves) };
    assert_eq!((it.from.as_str(), it.to.as_str(), it.partitions.len()), ("a", "b", MOVE_AT_ONCE));
    assert_eq!(decide(&moving, &both), None);
    assert!(
        one.last_move() < it.id && it.id <= moving.last_move(),
        "who has read neither table knows that it has not begun there"
    );

    let calm = |seen: Seen| Seen { may_move: false, ..seen };
    let mut refused = calm(both.clone());
    refused.adverts.get_mut("b").unwrap().refused = BTreeSet::from([it.id]);
    let next = decide(&moving, &refused).unwrap();
    assert_eq!((next.moves.len(), next.homes == moving.homes), (0, true));
    // The new home dies: everything is where it was.
    let next = decide(&moving, &calm(seen(&[("a", 1)]))).unwrap();
    assert_eq!((next.moves.len(), next.homes == moving.homes), (0, true));
    // The old home dies when all has arrived, or before.
    let mut dies = calm(seen(&[("b", 2)]));
    let next = decide(&moving, &dies).unwrap();
    assert!(it.partitions.iter().all(|p| next.home(*p).unwrap().by.is_none()));
    dies.adverts.get_mut("b").unwrap().arrived.insert(it.id);
    let next = decide(&moving, &dies).unwrap();
    assert!(it.partitions.iter().all(|p| next.home(*p).unwrap().by == Some(it.id)));
    // Another life of the new home does not have the partitions that arrived at the one before.
    let mut other = calm(seen(&[("a", 1), ("b", 3)]));
    other.adverts.get_mut("b").unwrap().arrived.insert(it.id);
    let next = decide(&moving, &other).unwrap();
    assert_eq!((next.moves.len(), next.homes == moving.homes, next.lives["b"]), (0, true, 3));
}

#[test]
fn nodes_and_orchestrators_never_share_a_table() {
    let mut all = seen(&[("a", 1), ("b", 2), ("c", 3)]);
    all.adverts.get_mut("b").unwrap().orchestrator = true;
    let (first, _) = settle(Table::default(), &mut all);
    assert_eq!(first.lives.keys().collect::<Vec<_>>(), ["a", "c"], "the kind of the first by name, at one moment");
    all.adverts.get_mut("a").unwrap().orchestrator = true;
    all.adverts.get_mut("c").unwrap().orchestrator = true;
    let (second, _) = settle(Table::default(), &mut all);
    assert_eq!(counts(&second).len(), 3);
    all.adverts.insert("d".to_owned(), Advert { life: 4, ..Advert::default() });
    all.members.insert("d".to_owned(), Sighting { life: 4, settled: true });
    let (third, _) = settle(second, &mut all);
    assert!(!third.lives.contains_key("d"), "the members are orchestrators");
}

#[test]
fn orchestrators_of_a_table_deal_groups_by_one_version() {
    let mut all = seen(&[("a", 1), ("b", 2), ("c", 3)]);
    for (name, version) in [("a", GROUP_VERSION), ("b", 0), ("c", GROUP_VERSION)] {
        let advert = all.adverts.get_mut(name).unwrap();
        (advert.orchestrator, advert.group_version) = (true, version);
    }
    let (first, _) = settle(Table::default(), &mut all);
    assert_eq!(first.lives.keys().collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn orchestrators_of_a_table_have_one_prefix_of_addresses() {
    let mut all = seen(&[("a", 1), ("b", 2), ("c", 3)]);
    for (name, prefix) in [("a", Some("ctx")), ("b", None), ("c", Some("ctx"))] {
        let advert = all.adverts.get_mut(name).unwrap();
        (advert.orchestrator, advert.address_prefix) = (true, prefix.map(str::to_owned));
    }
    let (first, _) = settle(Table::default(), &mut all);
    assert_eq!(first.lives.keys().collect::<Vec<_>>(), ["a", "c"]);
    all.adverts.get_mut("b").unwrap().address_prefix = Some("ctx".to_owned());
    let (second, _) = settle(first, &mut all);
    assert_eq!(counts(&second).len(), 3);
}

#[test]
fn a_move_begins_when_its_old_home_has_prepared_it() {
    let (one, _) = settle(Table::default(), &mut seen(&[("a", 1)]));
    let mut seen = seen(&[("a", 1), ("b", 2)]);
    seen.adverts.get_mut("a").unwrap().prepares = true;
    let joined = decide(&one, &seen).unwrap();
    let [prepared] = &joined.preparing[..] else { panic!("{joined:?}") };
    let (id, partition) = (prepared.id, prepared.partitions[0]);
    assert!(joined.moves.is_empty() && joined.is_settled(partition), "it is served as before");
    assert_eq!(decide(&joined, &seen), None, "both take part in a move");
    seen.adverts.get_mut("a").unwrap().prepared.insert(id);
    assert_eq!(decide(&joined, &Seen { may_move: false, ..seen.clone() }), None);
    let begun = decide(&joined, &seen).unwrap();
    assert_eq!((begun.moves.iter().map(|it| it.id).collect::<Vec<_>>(), begun.preparing.len()), (vec![id], 0));
    assert!(!begun.is_settled(partition));
    seen.adverts.get_mut("b").unwrap().arrived.insert(id);
    let next = decide(&begun, &seen).unwrap();
    assert_eq!((next.home(partition).unwrap().node.as_str(), next.preparing.len()), ("b", 1));
}

#[test]
fn a_preparation_ends_with_one_of_its_nodes() {
    let (one, _) = settle(Table::default(), &mut seen(&[("a", 1)]));
    for (name, life) in [("a", 7), ("b", 8)] {
        let mut seen = seen(&[("a", 1), ("b", 2)]);
        seen.adverts.get_mut("a").unwrap().prepares = true;
        let joined = decide(&one, &seen).unwrap();
        seen.members.get_mut(name).unwrap().life = life;
        seen.adverts.get_mut(name).unwrap().life = life;
        let id = joined.preparing[0].id;
        assert!(decide(&joined, &seen).unwrap().open_moves().all(|it| it.id != id), "{name}");
    }
}

#[test]
fn a_preparation_ends_when_its_new_home_leaves() {
    let (one, _) = settle(Table::default(), &mut seen(&[("a", 1)]));
    let mut seen = seen(&[("a", 1), ("b", 2)]);
    seen.adverts.get_mut("a").unwrap().prepares = true;
    let joined = decide(&one, &seen).unwrap();
    let id = joined.preparing[0].id;
    seen.adverts.get_mut("b").unwrap().leaving = true;
    // Also when it is prepared by then.
    seen.adverts.get_mut("a").unwrap().prepared.insert(id);
    let next = decide(&joined, &seen).unwrap();
    assert_eq!(next.open_moves().count(), 0);
    assert_eq!(decide(&next, &seen), None, "no partition goes to a node that leaves");
}

/// The same, where these nodes wait for their brokers.
fn waiting(nodes: &[(&str, u64)], waiting: &[&str]) -> Seen {
    let mut seen = seen(nodes);
    for name in waiting {
        seen.adverts.get_mut(*name).unwrap().waits = true;
    }
    seen
}

#[test]
fn a_member_that_waits_for_its_brokers_gets_no_partitions() {
    let nodes = [("a", 1), ("b", 2), ("c", 3)];
    let (first, _) = settle(Table::default(), &mut waiting(&nodes, &["a", "b", "c"]));
    assert_eq!(counts(&first), [342, 341, 341], "before the first partitions there is nothing to wait for");
    // One has died and is back: its partitions are elsewhere, and stay there.
    let (dead, _) = settle(first, &mut seen(&nodes[..2]));
    let back = [("a", 1), ("b", 2), ("c", 4)];
    let (waits, moved) = settle(dead, &mut waiting(&back, &["c"]));
    assert_eq!((counts(&waits), moved), (vec![512, 512, 0], 0));
    // Nor does it get partitions of a dead node beside another member.
    let orphans = decide(&waits, &waiting(&back[1..], &["c"])).unwrap();
    assert_eq!(counts(&orphans), [1_024, 0]);
    assert_eq!(counts(&settle(waits, &mut seen(&back)).0), [342, 341, 341], "it has its brokers");
}

#[test]
fn one_of_several_waiting_members_takes_all_partitions() {
    let nodes = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
    let (first, _) = settle(Table::default(), &mut seen(&nodes));
    let (one, _) = settle(first, &mut seen(&nodes[3..]));
    let (three, _) = settle(one, &mut waiting(&nodes[1..], &["b", "c"]));
    assert_eq!(counts(&three), [0, 0, 1_024]);
    let all_wait = decide(&three, &waiting(&nodes[1..3], &["b", "c"])).unwrap();
    assert_eq!(counts(&all_wait), [1_024, 0]);
    // A further one dies while all wait: the partitions stay together.
    let four = settle(all_wait, &mut waiting(&nodes[..3], &["a", "b", "c"])).0;
    assert_eq!(counts(&four), [0, 1_024, 0]);
    let mut last = decide(&four, &waiting(&[("a", 1), ("c", 3)], &["a", "c"])).unwrap();
    assert_eq!(counts(&last), [1_024, 0]);
    // Where some have partitions, it is the member with most partitions.
    for partition in 0..600 {
        last.give(partition, "c", last.epoch, None);
    }
    last.lives.insert("d".to_owned(), 9);
    last.give(1_023, "d", last.epoch, None);
    let dead = decide(&last, &waiting(&[("a", 1), ("c", 3)], &["a", "c"])).unwrap();
    assert_eq!((counts(&dead), dead.home(1_023).unwrap().node.as_str()), (vec![423, 601], "c"));
}

#[test]
fn a_quick_restart_keeps_the_partitions_of_a_member() {
    let (two, _) = settle(Table::default(), &mut seen(&[("a", 1), ("b", 2)]));
    let mut restarted = waiting(&[("a", 1), ("b", 5)], &["b"]);
    let (next, moved) = settle(two, &mut restarted);
    assert_eq!((counts(&next), next.lives["b"], moved), (vec![512, 512], 5, 0));
}
