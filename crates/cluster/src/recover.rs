//! When the bus has lost the log of tables, the leader continues from the newest table that any node knows.

use crate::{Seen, Table, decide};

/// The knowledge about a log of tables that may be lost.
#[derive(Clone, Copy, Debug)]
pub struct Logged<'a> {
    /// The newest table that this node knows, wherever from.
    pub own: &'a Table,
    /// The epoch of the newest table that is in the log; 0 for none.
    pub epoch: u64,
    /// Whether nodes have had time to report their tables, and absent nodes to return: they may have the newest
    /// table.
    pub has_waited: bool,
    /// Whether the nodes that are there have had time to report their tables since the log was lost. Nothing is waited for
    /// where all of them report the same one, and this node has read the whole log.
    pub has_heard: bool,
    /// Whether this node has read the log up to its end. All nodes read it again after a restart of the servers, and
    /// report a table that is further on in the log.
    pub has_read_all: bool,
}

/// The next step for a log of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: all is as it should be.
    Nothing,
    /// The log is lost. The cluster waits for these nodes of the newest table that is known.
    Awaits(Vec<String>),
    /// This table.
    Table(Box<Table>),
}

/// The next table of a log, which continues from the newest table that any node knows.
pub fn next(logged: &Logged<'_>, seen: &Seen) -> Next {
    let known = seen.adverts.values().filter_map(|advert| advert.known.as_deref());
    let newest = known.chain([logged.own]).max_by_key(|table| table.epoch).unwrap_or(logged.own);
    if newest.epoch <= logged.epoch {
        return decide(logged.own, seen).map_or(Next::Nothing, |table| Next::Table(Box::new(table)));
    }
    let is_absent = |name: &&String| seen.present(name).is_none();
    let absent: Vec<String> = newest.lives.keys().filter(is_absent).cloned().collect();
    let has_heard = logged.has_heard || logged.has_read_all && all_report(newest, seen);
    if !(logged.has_waited || absent.is_empty() && has_heard) {
        return Next::Awaits(absent);
    }
    // Partitions on their way are lost with the log of images; the old homes have all of them.
    let mut base = newest.clone();
    base.moves.clear();
    base.preparing.clear();
    let mut next = decide(&base, seen).unwrap_or(base);
    next.epoch = newest.epoch + 1;
    Next::Table(Box::new(next))
}

/// Whether each member of the group, and each node of the newest table, reports that table: none of them knows a newer one.
fn all_report(newest: &Table, seen: &Seen) -> bool {
    let reports = |name: &String| {
        let known = seen.present(name).and_then(|advert| advert.known.as_deref());
        known.is_some_and(|known| known == newest)
    };
    seen.members.keys().chain(newest.lives.keys()).all(reports)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Advert, Follower, Move, PARTITIONS, Sighting, Standing, Step};

    const NAMES: [&str; 3] = ["a", "b", "c"];

    /// Who is there, each as a life that comes after another one, and knows a table.
    fn seen(nodes: &[(&str, u64, Option<u64>, Option<&Table>)]) -> Seen {
        let mut seen = Seen { may_bury: true, may_move: true, may_balance: true, ..Seen::default() };
        for (name, life, after, known) in nodes {
            seen.members.insert((*name).to_owned(), Sighting { life: *life, settled: false });
            let known = known.map(|table| Box::new(table.clone()));
            let advert = Advert { life: *life, after: *after, known, kept: true, ..Advert::default() };
            seen.adverts.insert((*name).to_owned(), advert);
        }
        seen
    }

    /// Three nodes with their shares, and what each has.
    fn settled() -> (Table, Vec<Follower>) {
        let lives = [("a", 1, None, None), ("b", 2, None, None), ("c", 3, None, None)];
        let mut seen = seen(&lives);
        let mut table = Table::default();
        let mut followers: Vec<Follower> =
            NAMES.iter().zip(1..).map(|(name, life)| Follower::new(name, life, BTreeMap::new())).collect();
        while let Some(next) = decide(&table, &seen) {
            for it in &next.moves {
                seen.adverts.get_mut(&it.to).unwrap().arrived.insert(it.id);
            }
            table = next;
            for follower in &mut followers {
                let _ = follower.take(&table);
                table.moves.iter().for_each(|it| follower.arrived(it.id));
            }
        }
        (table, followers)
    }

    fn logged(own: &Table, epoch: u64) -> Logged<'_> {
        Logged { own, epoch, has_waited: false, has_heard: true, has_read_all: true }
    }

    #[test]
    fn a_log_that_has_all_is_gone_on_with() {
        let (table, _) = settled();
        let all = [("a", 1, None, None), ("b", 2, None, None), ("c", 3, None, None)];
        assert_eq!(next(&logged(&table, table.epoch), &seen(&all)), Next::Nothing);
        let other = [("a", 1, None, None), ("b", 2, None, None)];
        let decided = decide(&table, &seen(&other)).unwrap();
        assert_eq!(next(&logged(&table, table.epoch), &seen(&other)), Next::Table(Box::new(decided)));
    }

    #[test]
    fn nodes_started_after_a_lost_log_keep_their_partitions() {
        let (table, followers) = settled();
        let (nothing, mut steps) = (Table::default(), Vec::new());
        let all = [("a", 11, Some(1), Some(&table)), ("b", 12, Some(2), None), ("c", 13, Some(3), None)];
        let Next::Table(made) = next(&logged(&nothing, 0), &seen(&all)) else { panic!("no table") };
        assert_eq!((made.epoch, &made.homes), (table.epoch + 1, &table.homes));
        for ((name, life), before) in NAMES.iter().zip(11..).zip(&followers) {
            let mut follower = Follower::new(name, life, before.holdings());
            steps.extend(follower.take(&made));
        }
        let kept: usize = steps.iter().map(|it| if let Step::Keep(kept) = it { kept.len() } else { 0 }).sum();
        assert_eq!(kept, usize::from(PARTITIONS));
        assert!(!steps.iter().any(|it| matches!(it, Step::Begin { .. })), "{steps:?}");
    }

    #[test]
    fn the_newest_table_that_anybody_knows_counts() {
        let (table, _) = settled();
        let older = Table { epoch: table.epoch - 1, ..Table::default() };
        let all = [("a", 1, None, None), ("b", 2, None, Some(&table)), ("c", 3, None, Some(&older))];
        let Next::Table(made) = next(&logged(&older, 0), &seen(&all)) else { panic!("no table") };
        assert_eq!((made.epoch, made.homes), (table.epoch + 1, table.homes));
    }

    #[test]
    fn who_is_missing_is_waited_for_and_then_given_up() {
        let (table, _) = settled();
        let two = [("a", 1, None, None), ("c", 3, None, None)];
        let lost = logged(&table, 0);
        assert_eq!(next(&lost, &seen(&two)), Next::Awaits(vec!["b".to_owned()]));
        let Next::Table(made) = next(&Logged { has_waited: true, ..lost }, &seen(&two)) else { panic!("no table") };
        assert!(made.of("b").is_empty() && made.epoch == table.epoch + 1);
        let all = [("a", 1, None, None), ("b", 2, None, None), ("c", 3, None, None)];
        let deaf = Logged { has_heard: false, ..lost };
        assert_eq!(next(&deaf, &seen(&all)), Next::Awaits(Vec::new()), "a node may know a newer one");
    }

    #[test]
    fn a_table_that_all_nodes_report_continues_at_once() {
        let (table, _) = settled();
        let deaf = Logged { has_heard: false, ..logged(&table, 0) };
        let known = Some(&table);
        let mut all = vec![("a", 11, Some(1), known), ("b", 12, Some(2), known), ("c", 13, Some(3), known)];
        let Next::Table(made) = next(&deaf, &seen(&all)) else { panic!("no table") };
        assert_eq!((made.epoch, &made.homes), (table.epoch + 1, &table.homes));
        all.push(("d", 14, None, None));
        assert_eq!(next(&deaf, &seen(&all)), Next::Awaits(Vec::new()), "a new member has reported nothing yet");
        let older = Table { epoch: table.epoch - 1, ..table.clone() };
        let mixed = [("a", 1, None, known), ("b", 2, None, Some(&older)), ("c", 3, None, known)];
        assert_eq!(next(&deaf, &seen(&mixed)), Next::Awaits(Vec::new()), "a node may have reported before the loss");
        let two = [("a", 1, None, known), ("c", 3, None, known)];
        assert_eq!(next(&deaf, &seen(&two)), Next::Awaits(vec!["b".to_owned()]), "node b may know a newer one");
    }

    #[test]
    fn a_reported_table_may_be_in_the_unread_rest_of_the_log() {
        let (mut table, _) = settled();
        let partitions = table.of("a").into_iter().take(3).collect();
        table.epoch += 1;
        table.moves.push(Move { id: 9_999, partitions, from: "a".into(), to: "b".into() });
        let known = Some(&table);
        let all = seen(&[("a", 1, None, known), ("b", 2, None, known), ("c", 3, None, known)]);
        let unread = Logged { has_heard: false, has_read_all: false, ..logged(&table, 0) };
        assert_eq!(next(&unread, &all), Next::Awaits(Vec::new()), "the log may have it");
        let read = Logged { has_read_all: true, ..unread };
        assert!(matches!(next(&read, &all), Next::Table(made) if made.moves.is_empty()));
        let in_the_log = Logged { epoch: table.epoch, ..unread };
        assert_eq!(next(&in_the_log, &all), Next::Nothing, "the move continues");
    }

    #[test]
    fn what_moved_when_the_log_was_lost_stays_where_it_was() {
        let (mut table, mut followers) = settled();
        let moved = table.of("a").into_iter().take(3).collect::<Vec<u16>>();
        table.epoch += 1;
        table.moves.push(Move { id: 9_999, partitions: moved.clone(), from: "a".into(), to: "b".into() });
        for follower in &mut followers {
            let _ = follower.take(&table);
        }
        let all = [("a", 1, None, None), ("b", 2, None, None), ("c", 3, None, None)];
        let Next::Table(made) = next(&logged(&table, 0), &seen(&all)) else { panic!("no table") };
        assert!(made.moves.is_empty());
        assert!(followers[0].take(&made).contains(&Step::Resume(moved.clone())));
        let _ = followers[1].take(&made);
        assert!(moved.iter().all(|it| followers[1].standing(*it) == Standing::Elsewhere));
    }
}
