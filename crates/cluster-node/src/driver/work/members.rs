//! The members of the cluster, as the last table names them.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::Partitions;
use tidegate_node::NodeName;

use super::TableWork;
use crate::driver::sets::both;

/// The members and their partitions.
pub(super) struct Members {
    /// The name of this member.
    pub(super) name: String,
    /// The life of the last table.
    pub(super) life: u64,
    /// The lives of all members.
    pub(super) lives: BTreeMap<String, u64>,
    /// The partitions served here.
    pub(super) served: Partitions,
    /// The other members that work partitions, by partition.
    homes: Vec<Option<NodeName>>,
}

impl Members {
    pub(super) fn new(name: String) -> Self {
        Self { name, life: 0, lives: BTreeMap::new(), served: Partitions::NONE, homes: Vec::new() }
    }

    /// A table has come.
    pub(super) fn note_table(&mut self, work: &TableWork) {
        let lives = work.memory.table.as_ref().map(|table| table.lives.clone()).unwrap_or_default();
        self.lives = lives.into_iter().filter(|(name, _)| work.told.names.contains(name)).collect();
        (self.homes, self.served) = (work.told.view.homes.to_vec(), work.served);
    }

    /// The other members that the table names for these partitions.
    pub(super) fn homes_of(&self, partitions: Partitions) -> BTreeMap<String, Partitions> {
        let mut homes: BTreeMap<String, Partitions> = BTreeMap::new();
        for partition in partitions.iter() {
            let home = self.homes.get(usize::from(partition.0)).and_then(Option::as_ref).map(NodeName::as_str);
            if let Some(home) = home.filter(|home| self.lives.contains_key(*home)) {
                homes.entry(home.to_owned()).or_default().add(partition);
            }
        }
        homes
    }

    /// The members that get the messages which a connection of the dead orchestrator `of` brings for these partitions. The
    /// brokers of one that is back know no filters before this connection has ended. Where it has some of these partitions,
    /// the brokers of another member still bring their messages, so all members say whether their brokers know the filters.
    pub(super) fn receivers(&self, of: &str, partitions: Partitions) -> BTreeMap<String, Partitions> {
        let mut receivers = self.homes_of(partitions);
        let has_some =
            if of == self.name { !both(self.served, partitions).is_empty() } else { receivers.contains_key(of) };
        for other in self.others().into_iter().filter(|_| has_some) {
            receivers.entry(other).or_default();
        }
        receivers
    }

    /// The members in `waiting`, but for `of`, that have some of these partitions; those in `coming` are about to be served
    /// here.
    pub(super) fn among(
        &self,
        waiting: &BTreeSet<String>,
        of: &str,
        coming: Partitions,
        partitions: Partitions,
    ) -> BTreeSet<String> {
        let has_own = !coming.with(both(self.served, partitions)).is_empty();
        let own = has_own.then(|| self.name.clone());
        let homes = self.homes_of(partitions).into_keys().chain(own);
        homes.filter(|home| home != of && waiting.contains(home)).collect()
    }

    /// The names of the other members.
    pub(super) fn others(&self) -> BTreeSet<String> {
        self.lives.keys().filter(|name| **name != self.name).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece_steps::tests::partitions;
    use super::*;

    /// The member `a` of a cluster of three, which serves the first partition; `b` has the second, `c` the third.
    fn members() -> Members {
        let name = |name: &str| NodeName::new(name).ok();
        Members {
            served: partitions(&[0]),
            lives: ["a", "b", "c"].map(|name| (name.to_owned(), 1)).into(),
            homes: vec![None, name("b"), name("c")],
            ..Members::new("a".to_owned())
        }
    }

    #[test]
    fn a_member_that_is_back_gets_what_its_last_life_missed() {
        let receivers = |of: &str, wanted: &[u16]| members().receivers(of, partitions(wanted));
        assert_eq!(receivers("d", &[0, 1]), [("b".to_owned(), partitions(&[1]))].into(), "the dead one is not back");
        let of_b = [("b".to_owned(), partitions(&[1])), ("c".to_owned(), Partitions::NONE)];
        assert_eq!(receivers("b", &[0, 1]), of_b.into(), "the brokers of c may bring messages for b");
        assert_eq!(receivers("b", &[0, 2]), [("c".to_owned(), partitions(&[2]))].into(), "b has none of them");
    }

    #[test]
    fn members_that_are_back_count_where_they_have_partitions() {
        let names = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let waiting = names(&["a", "b", "d"]);
        let among = |of: &str, coming: &[u16], wanted: &[u16]| {
            members().among(&waiting, of, partitions(coming), partitions(wanted))
        };
        assert_eq!(among("d", &[], &[1, 2]), names(&["b"]), "c does not wait");
        assert_eq!(among("d", &[], &[0, 2]), names(&["a"]));
        assert_eq!(among("d", &[5], &[2]), names(&["a"]), "its partitions come");
        assert_eq!(among("b", &[], &[1]), names(&[]), "it is its own connection");
    }

    #[test]
    fn a_member_asks_all_for_its_own_last_life() {
        let all = [("b".to_owned(), partitions(&[1])), ("c".to_owned(), Partitions::NONE)];
        assert_eq!(members().receivers("a", partitions(&[0, 1])), all.into());
        assert_eq!(members().receivers("a", partitions(&[2])).len(), 1);
    }
}
