//! The table: the nodes of the cluster, the home of each partition, and its moves.

pub(crate) mod homes;
pub(crate) mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Homes;
use record::{TableRecord, VERSION};

/// Number of partitions, fixed for all clusters. A cluster has no more members.
pub const PARTITIONS: u16 = 1_024;

/// Why a record of a cluster's logs is invalid.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not JSON, or not of this kind.
    #[error("it is no record of a cluster: {0}")]
    Form(#[from] serde_json::Error),
    /// Written by another version.
    #[error(
        "its layout has version {0}, and this build reads versions 1 and {VERSION}; run the same version on all nodes"
    )]
    Version(u32),
    /// A table for another number of partitions.
    #[error("it has {0} partitions; there are {PARTITIONS}")]
    Partitions(usize),
    /// Series of partitions that name none.
    #[error("it names partitions beyond {PARTITIONS}")]
    Series,
}

/// A correction of a node's configured weight, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Factor(pub u16);

impl Factor {
    /// No correction.
    pub const NONE: Self = Self(1_000);
    /// The least factor that counts: an eighth.
    pub const MIN: Self = Self(125);
    /// The greatest factor that counts: eight times the weight.
    pub const MAX: Self = Self(8_000);

    /// The nearest factor that counts.
    #[expect(clippy::cast_sign_loss, reason = "it is above 0 when it is cast")]
    pub fn of(part: f64) -> Self {
        Self((part * 1_000.0).round().clamp(f64::from(Self::MIN.0), f64::from(Self::MAX.0)) as u16)
    }

    /// From [`Factor::MIN`] to [`Factor::MAX`], whatever the record says.
    pub(crate) fn counted(self) -> u64 {
        u64::from(self.0.clamp(Self::MIN.0, Self::MAX.0))
    }
}

impl Default for Factor {
    fn default() -> Self {
        Self::NONE
    }
}

/// Moves that may begin with one table, so that each has an id of its own, greater than any of earlier tables.
pub(crate) const MOVES_PER_TABLE: u64 = 256;

/// Most dead nodes that are remembered for a partition: they died one after the other before it was restored.
const MAX_FORMER: usize = 8;

/// A dead node that was the home of a partition before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Former {
    /// The node's name.
    pub node: String,
    /// The epoch since which it had the partition.
    pub since: u64,
    /// The move by which it had come there.
    pub by: Option<u64>,
}

/// The home of a partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Home {
    /// The node's name.
    pub node: String,
    /// The epoch since which it does. An image that a node remembers since another epoch is not the one served.
    pub since: u64,
    /// The move by which it came; none where it began with nothing.
    pub by: Option<u64>,
    /// No node has worked the partition before: it takes nothing from any.
    #[serde(default, skip_serializing_if = "crate::advert::is_unset")]
    pub first: bool,
    /// Who may have left on the bus what the partition was when they died, the latest first. Empty once the home has
    /// fetched it, and where there is nothing to fetch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Former>,
}

/// Partitions on their way from one node to another. No node serves them meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Never used twice.
    pub id: u64,
    /// In order.
    pub partitions: Vec<u16>,
    /// The node that has them.
    pub from: String,
    /// The node that will have them.
    pub to: String,
}

/// The node that works each partition. Each table is made from the previous table, and has the next epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "TableRecord", try_from = "TableRecord")]
pub struct Table {
    /// Grows by one with each.
    pub epoch: u64,
    /// The nodes, and which life of each is meant: a process that has lost its membership, or was started again, is
    /// another one.
    pub lives: BTreeMap<String, u64>,
    /// For each partition who works it. Shared by the copies of a table until one of them changes it: there are many
    /// partitions, and most tables that are looked at stay as they are.
    pub homes: Arc<Homes>,
    /// The moves that have begun.
    pub moves: Vec<Move>,
    /// Moves that are prepared. Their partitions are served as before, while the old home sends long queues ahead.
    pub preparing: Vec<Move>,
    /// Lives that were given up before their leases had run out. None of them becomes a member again: another life of
    /// the node can.
    pub given_up: BTreeMap<String, u64>,
    /// Corrections of the weights of nodes by measures. Nodes without one keep their weights.
    pub factors: BTreeMap<String, Factor>,
}

impl Default for Table {
    /// The table before the first one.
    fn default() -> Self {
        let (lives, homes, moves, preparing) = (BTreeMap::new(), Arc::default(), Vec::new(), Vec::new());
        Self { epoch: 0, lives, homes, moves, preparing, given_up: BTreeMap::new(), factors: BTreeMap::new() }
    }
}

impl Table {
    /// As a record.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Maps whose keys are texts, numbers and lists: nothing of it can fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When it is no table of a version that is known.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        serde_json::from_slice::<TableRecord>(bytes)?.try_into()
    }

    /// The home of a partition.
    pub fn home(&self, partition: u16) -> Option<&Home> {
        self.homes.get(partition)
    }

    /// The partitions of a node, including partitions that move away.
    pub fn of(&self, node: &str) -> Vec<u16> {
        self.homes.partitions(|home| is_at(home, node))
    }

    /// Whether it names a node: as one that lives, has or had partitions, or gives or gets some.
    pub fn names(&self, node: &str) -> bool {
        let is_of = |home: Option<&Home>| {
            home.is_some_and(|home| home.node == node || home.former.iter().any(|former| former.node == node))
        };
        self.lives.contains_key(node)
            || self.open_moves().any(|it| it.from == node || it.to == node)
            || !self.homes.partitions(is_of).is_empty()
    }

    /// The moves that have begun, and moves that are prepared.
    pub fn open_moves(&self) -> impl Iterator<Item = &Move> {
        self.moves.iter().chain(&self.preparing)
    }

    /// The move of a partition.
    pub fn move_of(&self, partition: u16) -> Option<&Move> {
        self.moves.iter().find(|it| it.partitions.binary_search(&partition).is_ok())
    }

    /// The size of a node's share in relation to others, in thousandths of the unit of weights.
    pub(crate) fn weight(&self, name: &str, configured: u64) -> u64 {
        configured * self.factors.get(name).copied().unwrap_or_default().counted()
    }

    /// The greatest id of a move that can have begun by now.
    pub fn last_move(&self) -> u64 {
        self.epoch.saturating_add(1).saturating_mul(MOVES_PER_TABLE).saturating_sub(1)
    }

    /// Whether its home serves a partition, as far as a table can say: it does not move, and all that a dead node had
    /// of it is there.
    pub fn is_settled(&self, partition: u16) -> bool {
        self.home(partition).is_some_and(|home| home.former.is_empty()) && self.move_of(partition).is_none()
    }

    /// The former homes of a partition need not keep it any more.
    pub(crate) fn forget_former(&mut self, partition: u16) {
        if let Some(home) = self.home(partition).cloned() {
            Arc::make_mut(&mut self.homes).set(partition, Some(Home { former: Vec::new(), ..home }));
        }
    }

    pub(crate) fn give(&mut self, partition: u16, node: &str, since: u64, by: Option<u64>) {
        let home = Home { node: node.to_owned(), since, by, first: false, former: Vec::new() };
        Arc::make_mut(&mut self.homes).set(partition, Some(home));
    }

    /// Gives the partition of a dead node to another one, which has to fetch its image. `is_kept` says whether the
    /// dead one has left it on the bus.
    pub(crate) fn inherit(&mut self, partition: u16, node: &str, since: u64, is_kept: bool) {
        let (first, former) = match self.home(partition).cloned() {
            Some(before) => {
                let left = Former { node: before.node, since: before.since, by: before.by };
                (false, is_kept.then_some(left).into_iter().chain(before.former).take(MAX_FORMER).collect())
            }
            None => (true, Vec::new()),
        };
        let home = Home { node: node.to_owned(), since, by: None, first, former };
        Arc::make_mut(&mut self.homes).set(partition, Some(home));
    }
}

pub(crate) fn is_at(home: Option<&Home>, node: &str) -> bool {
    home.is_some_and(|home| home.node == node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written_or_not_at_all() {
        let mut table = Table { epoch: 7, ..Table::default() };
        table.lives.insert("a".to_owned(), u64::MAX);
        table.give(1_023, "a", 5, None);
        table.moves.push(Move { id: 9, partitions: vec![1_023], from: "a".into(), to: "b".into() });
        table.preparing.push(Move { id: 8, partitions: vec![1_023], from: "a".into(), to: "c".into() });
        assert_eq!(Table::from_bytes(&table.to_bytes()).unwrap(), table);
        table.preparing.clear();
        assert_eq!((table.of("a"), table.of("b")), (vec![1_023], vec![]));
        table.give(1, "a", 5, None);
        assert!(table.is_settled(1) && !table.is_settled(1_023) && !table.is_settled(0), "one moves, one has no home");
        table.inherit(1, "b", 8, true);
        assert!(!table.is_settled(1), "it has to be fetched");
        assert!(matches!(Table::from_bytes(b"{}"), Err(RecordError::Form(_))));
    }
}
