//! Whether a node has died before its lease has run out.
//!
//! The system refuses connections to an address whose process has ended. That is a sign and no proof. So a node is given
//! up by it only where a fence follows: its store is on the bus, and the node that takes its partitions first claims
//! that log.

use std::collections::BTreeSet;

use crate::{Advert, Seen, Table};

/// The reports of the nodes of a table about each other, joined once for all nodes: a cluster may have a thousand.
pub(crate) struct Reports<'a, 's> {
    table: &'a Table,
    seen: &'s Seen,
    /// Nodes of the table that are there and that no other of them takes for ended.
    witnesses: Vec<&'a String>,
}

impl<'a, 's> Reports<'a, 's> {
    pub(crate) fn new(table: &'a Table, seen: &'s Seen) -> Self {
        let there = table.lives.iter().filter_map(|(name, life)| {
            let advert = seen.present(name).filter(|advert| advert.life == *life && !advert.ends())?;
            Some((name, *life, advert))
        });
        let there: Vec<(&String, u64, &Advert)> = there.collect();
        let of_others =
            there.iter().flat_map(|(by, _, advert)| advert.ended.iter().filter(move |(name, _)| name != by));
        let accused: BTreeSet<(&String, u64)> = of_others.map(|(name, life)| (name, *life)).collect();
        let free = there.iter().filter(|(name, life, _)| !accused.contains(&(*name, *life)));
        Self { table, seen, witnesses: free.map(|(name, _, _)| *name).collect() }
    }

    /// Whether a node of the table has ended for all others that are there, at least half of the table, and its store is
    /// on the bus.
    pub(crate) fn has_ended(&self, name: &str) -> bool {
        let Some(life) = self.table.lives.get(name) else { return false };
        if !self.seen.present(name).is_some_and(|advert| advert.life == *life && advert.kept) {
            return false;
        }
        let says_so = |other: &&String| {
            other.as_str() != name && self.seen.present(other).is_some_and(|it| it.ended.get(name) == Some(life))
        };
        let are_enough = self.witnesses.len() * 2 >= self.table.lives.len() && !self.witnesses.is_empty();
        are_enough && self.witnesses.iter().all(says_so)
    }
}

/// The node that leads in place of a leader that has ended, until the group has chosen another one: the first node
/// that is there. The log of tables is fenced, so a second leader costs nothing but a claim.
pub fn deputy<'a>(table: &'a Table, seen: &Seen) -> Option<&'a str> {
    let leads = |name: &String| seen.present(name).is_some_and(|advert| advert.leads);
    let was_given_up = |name: &String| {
        let life = table.given_up.get(name);
        life.is_some() && life == seen.members.get(name).map(|member| &member.life)
    };
    let reports = Reports::new(table, seen);
    let witnesses = &reports.witnesses;
    if witnesses.iter().any(|name| leads(name) && !is_first(witnesses, name)) {
        return None;
    }
    let ended = table.lives.keys().filter(|name| reports.has_ended(name));
    let mut ended = ended.chain(table.given_up.keys().filter(|name| was_given_up(name)));
    ended.any(leads).then(|| witnesses.first().map(|name| name.as_str())).flatten()
}

fn is_first(witnesses: &[&String], name: &str) -> bool {
    witnesses.first().is_some_and(|first| first.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sighting, decide};

    /// Three nodes that keep their stores on the bus, and the table that they have come to.
    fn three() -> (Table, Seen) {
        let mut seen = Seen { may_bury: true, may_move: true, may_balance: true, ..Seen::default() };
        for (name, life) in [("a", 1), ("b", 2), ("c", 3)] {
            seen.members.insert(name.to_owned(), Sighting { life, settled: true });
            let advert = Advert { life, kept: true, leads: name == "a", ..Advert::default() };
            seen.adverts.insert(name.to_owned(), advert);
        }
        let mut table = Table::default();
        while let Some(next) = decide(&table, &seen) {
            for it in &next.moves {
                seen.adverts.get_mut(&it.to).unwrap().arrived.insert(it.id);
            }
            table = next;
        }
        (table, seen)
    }

    fn accuse(seen: &mut Seen, by: &str, name: &str, life: u64) {
        seen.adverts.get_mut(by).unwrap().ended.insert(name.to_owned(), life);
    }

    #[test]
    fn who_has_ended_for_all_others_is_given_up_at_once() {
        let (table, mut seen) = three();
        accuse(&mut seen, "a", "c", 3);
        assert_eq!(decide(&table, &seen), None, "one is cut off from it");
        accuse(&mut seen, "b", "c", 3);
        let next = decide(&table, &seen).unwrap();
        assert!(!next.lives.contains_key("c") && next.of("c").is_empty());
        let fetched = (0..crate::PARTITIONS).filter(|it| !next.home(*it).unwrap().former.is_empty()).count();
        assert_eq!(fetched, table.of("c").len(), "each has to be fetched, which fences the log of the dead node");
        assert_eq!(decide(&next, &seen), None, "the bus knows it still, and it is not taken in again");
        seen.members.insert("c".to_owned(), Sighting { life: 9, settled: false });
        seen.adverts.get_mut("c").unwrap().life = 9;
        let back = decide(&next, &seen).unwrap();
        assert_eq!((back.lives["c"], back.given_up.len()), (9, 0), "another life of it is");
    }

    #[test]
    fn one_that_keeps_nothing_on_the_bus_is_waited_for() {
        let (table, mut seen) = three();
        seen.adverts.get_mut("c").unwrap().kept = false;
        accuse(&mut seen, "a", "c", 3);
        accuse(&mut seen, "b", "c", 3);
        assert_eq!(decide(&table, &seen), None);
    }

    #[test]
    fn a_word_about_an_earlier_life_says_nothing() {
        let (table, mut seen) = three();
        accuse(&mut seen, "a", "c", 2);
        accuse(&mut seen, "b", "c", 2);
        assert_eq!(decide(&table, &seen), None);
    }

    #[test]
    fn a_minority_gives_no_node_up() {
        let (table, mut seen) = three();
        accuse(&mut seen, "c", "a", 1);
        accuse(&mut seen, "c", "b", 2);
        assert_eq!(decide(&table, &seen), None, "it is more likely that it is cut off itself");
        accuse(&mut seen, "a", "c", 3);
        accuse(&mut seen, "b", "c", 3);
        assert_eq!(decide(&table, &seen), None, "all accuse each other");
    }

    #[test]
    fn the_first_that_is_there_leads_when_the_leader_has_ended() {
        let (table, mut seen) = three();
        assert_eq!(deputy(&table, &seen), None);
        accuse(&mut seen, "b", "a", 1);
        assert_eq!(deputy(&table, &seen), None);
        accuse(&mut seen, "c", "a", 1);
        assert_eq!(deputy(&table, &seen), Some("b"));
        seen.adverts.get_mut("b").unwrap().leads = true;
        let next = decide(&table, &seen).unwrap();
        assert_eq!(deputy(&next, &seen), Some("b"), "until the group has given the lead to another");
        seen.members.remove("a");
        assert_eq!(deputy(&next, &seen), None);
    }
}
