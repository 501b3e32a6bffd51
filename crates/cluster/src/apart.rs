//! Which members get no partitions, since they have no link to the others.
//!
//! A node with another secret or link version, or with an address that the others do not reach, is a member of the group on
//! the bus. Partitions that it got would be served to no client of another node.

use std::collections::BTreeSet;

use crate::{Seen, Table};

/// The members of a table that get no partitions. The leader with the nodes that it has links with is one side, and all
/// other members are the other one. Partitions are where the cluster is: only if the leader's side has none, the leader
/// itself is apart. Before the first partitions are assigned, no node has links.
pub(crate) fn apart<'a>(table: &'a Table, seen: &Seen) -> BTreeSet<&'a str> {
    let Some(linked) = &seen.linked else { return BTreeSet::new() };
    let (near, far): (BTreeSet<&str>, BTreeSet<&str>) =
        table.lives.keys().map(String::as_str).partition(|name| linked.contains(*name));
    let homes: BTreeSet<&str> = table.homes.shares().map(|(home, _)| home.node.as_str()).collect();
    match (homes.is_disjoint(&near), homes.is_disjoint(&far)) {
        (false, _) => far,
        (true, false) => near,
        (true, true) => BTreeSet::new(),
    }
}
