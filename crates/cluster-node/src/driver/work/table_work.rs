//! The work that a table asks of this node.

use std::collections::BTreeMap;

use tidegate_cluster::{Follower, Move, PARTITIONS, Standing, Step, Table};
use tidegate_engine::{PartitionId, Partitions};

use crate::driver::memory::Memory;
use crate::driver::view::TableView;

/// The work for a table.
pub(in crate::driver) struct TableWork {
    pub(in crate::driver) steps: Vec<Step>,
    pub(in crate::driver) told: TableView,
    /// The life for which it is asked.
    pub(in crate::driver) life: u64,
    /// The state to remember when the steps are done.
    pub(in crate::driver) memory: Memory,
    /// The partitions to fetch from dead nodes, and since which epoch they are at home here.
    pub(in crate::driver) restoring: BTreeMap<u16, u64>,
    /// The partitions here that no node serves, since they move, or are not all here.
    pub(in crate::driver) held: Partitions,
    /// The partitions served here.
    pub(in crate::driver) served: Partitions,
    /// Moves from here that are prepared.
    pub(in crate::driver) preparing: Vec<Move>,
    /// Moves from here that have begun.
    pub(in crate::driver) begun: Vec<u64>,
    /// Moves to here and their old homes, prepared ones included.
    pub(in crate::driver) to_here: BTreeMap<u64, String>,
}

/// A node that follows a table.
pub(in crate::driver) struct FollowingNode<'a> {
    pub(in crate::driver) name: &'a str,
    pub(in crate::driver) life: u64,
    /// The address at which the process listens for links.
    pub(in crate::driver) place: Option<&'a str>,
    pub(in crate::driver) follower: &'a Follower,
    /// The newest table that it knows.
    pub(in crate::driver) known: &'a Table,
}

impl TableWork {
    /// The work of a node for a table that its follower has taken with these steps. `told` is the node's view of the table.
    pub(in crate::driver) fn new(node: &FollowingNode<'_>, table: &Table, steps: Vec<Step>, told: TableView) -> Self {
        let FollowingNode { name: own, follower, .. } = node;
        let those = |is: &dyn Fn(u16) -> bool| -> Partitions {
            (0..PARTITIONS).filter(|partition| is(*partition)).map(PartitionId).collect()
        };
        let moving = |partition: u16| {
            use Standing::{Arriving, Aside, Leaving, Restoring};
            let standing = follower.standing(partition);
            matches!(standing, Leaving { .. } | Arriving { .. } | Restoring { .. } | Aside { .. })
        };
        let restoring = (0..PARTITIONS).filter_map(|partition| match follower.standing(partition) {
            Standing::Restoring { since, .. } => Some((partition, since)),
            _ => None,
        });
        let is_member = follower.is_member();
        let from_here = table.preparing.iter().filter(|it| is_member && it.from == *own).cloned();
        let to_here = table.open_moves().filter(|it| is_member && it.to == *own).map(|it| (it.id, it.from.clone()));
        let begun = table.moves.iter().filter(|it| is_member && it.from == *own).map(|it| it.id);
        let remembered = (node.life, node.place);
        Self {
            preparing: from_here.collect(),
            begun: begun.collect(),
            to_here: to_here.collect(),
            steps,
            told,
            life: node.life,
            memory: Memory::of_table(remembered, follower.holdings(), follower.arrivals(), node.known),
            restoring: restoring.collect(),
            held: those(&moving),
            served: those(&|partition| follower.serves(partition)),
        }
    }
}
