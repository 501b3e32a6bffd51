//! The members of the cluster, as the last table names them.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_administration::FORMER_LIFE;
use tidegate_engine::Partitions;
use tidegate_node::{NodeHandle, NodeName};

use super::TableWork;
use super::asking::ANSWER_TIMEOUT;

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

    /// The brokers whose connections of this member's last life others work off; `None` while that is not known.
    pub(super) fn worked_off_elsewhere(&self, node: &NodeHandle, epoch: u64) -> Option<BTreeSet<String>> {
        let mut question = vec![FORMER_LIFE];
        question.extend_from_slice(&epoch.to_le_bytes());
        let mut held = BTreeSet::new();
        for name in self.lives.keys().filter(|name| **name != self.name) {
            let asked = node.ask_node(&NodeName::new(name).ok()?, question.clone()).ok()?;
            let answer = asked.recv_timeout(ANSWER_TIMEOUT).ok()?.ok()?;
            held.extend(serde_json::from_slice::<Option<BTreeSet<String>>>(&answer).ok()??);
        }
        Some(held)
    }
}
