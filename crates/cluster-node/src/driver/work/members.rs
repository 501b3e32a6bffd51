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
    /// the brokers of another member still bring their messages, so all members with partitions say whether their brokers
    /// know the filters. A member without partitions has none, and may wait for this connection.
    pub(super) fn receivers(&self, of: &str, partitions: Partitions) -> BTreeMap<String, Partitions> {
        let mut receivers = self.homes_of(partitions);
        let has_some =
            if of == self.name { !both(self.served, partitions).is_empty() } else { receivers.contains_key(of) };
        let homes = self.homes.iter().flatten().map(|home| home.as_str().to_owned());
        let homes: BTreeSet<String> = homes.filter(|home| has_some && self.lives.contains_key(home)).collect();
        for other in homes {
            receivers.entry(other).or_default();
        }
        receivers
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

    /// The member `a` of a cluster of four, which serves the first partition; `b` has the second, `c` the third, `e` none.
    fn members() -> Members {
        let name = |name: &str| NodeName::new(name).ok();
        Members {
            served: partitions(&[0]),
            lives: ["a", "b", "c", "e"].map(|name| (name.to_owned(), 1)).into(),
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
    fn a_member_asks_all_for_its_own_last_life() {
        let all = [("b".to_owned(), partitions(&[1])), ("c".to_owned(), Partitions::NONE)];
        assert_eq!(members().receivers("a", partitions(&[0, 1])), all.into());
        assert_eq!(members().receivers("a", partitions(&[2])).len(), 1);
    }
}
