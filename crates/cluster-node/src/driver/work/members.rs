//! The members of the cluster, as the last table names them.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::Partitions;
use tidegate_node::NodeName;

use super::TableWork;

/// The members and their partitions.
pub(super) struct Members {
    /// The name of this member.
    pub(super) name: String,
    /// The life of the last table.
    pub(super) life: u64,
    /// The lives of all members.
    pub(super) lives: BTreeMap<String, u64>,
    /// The other members that work partitions, by partition.
    homes: Vec<Option<NodeName>>,
}

impl Members {
    pub(super) fn new(name: String) -> Self {
        Self { name, life: 0, lives: BTreeMap::new(), homes: Vec::new() }
    }

    /// A table has come.
    pub(super) fn note_table(&mut self, work: &TableWork) {
        let lives = work.memory.table.as_ref().map(|table| table.lives.clone()).unwrap_or_default();
        self.lives = lives.into_iter().filter(|(name, _)| work.told.names.contains(name)).collect();
        self.homes = work.told.view.homes.to_vec();
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

    /// The partitions among these that the table gives to other members.
    pub(super) fn served_elsewhere(&self, partitions: Partitions) -> Partitions {
        self.homes_of(partitions).into_values().fold(Partitions::NONE, Partitions::with)
    }

    /// The names of the other members.
    pub(super) fn others(&self) -> BTreeSet<String> {
        self.lives.keys().filter(|name| **name != self.name).cloned().collect()
    }
}
