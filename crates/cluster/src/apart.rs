//! Members that get no partitions, since they have no link to the others.
//!
//! A node with another secret or link version, or with an address that the others do not reach, is a member of the group on
//! the bus. Partitions that it got would be served to no client of another node.

use std::collections::BTreeSet;

use crate::{Seen, Table};

/// The willing members that are not apart from the cluster, or all of them if each is apart: partitions of nodes that leave
/// or have died are better served there than not at all.
pub(crate) fn together(table: &Table, seen: &Seen, willing: Vec<String>) -> Vec<String> {
    let apart = apart(table, seen);
    let (apart, together): (Vec<_>, Vec<_>) = willing.into_iter().partition(|name| apart.contains(name.as_str()));
    if together.is_empty() { apart } else { together }
}

/// The members of a table that get no partitions. The leader with the nodes that it has links with is one side, and all
/// other members are the other one. Partitions are where the cluster is: only if the leader's side has none, the leader
/// itself is apart. Before the first partitions are assigned, no node has links.
fn apart<'a>(table: &'a Table, seen: &Seen) -> BTreeSet<&'a str> {
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
