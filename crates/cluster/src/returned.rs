//! Orchestrators that are back, and get no partitions while their connections to brokers wait.
//!
//! Other members work off the connections of the last life of such an orchestrator, each until the brokers of all homes know
//! the filters of the partitions there. If two of these homes waited for their own former connections, they could wait for
//! each other. So one member at most that waits gets partitions: its former connections wait only for members that have
//! their brokers, and all others wait for these members and for it. A member that restarts before it is given up keeps its
//! partitions while it waits: no other member works off its connections.

use std::cmp::Reverse;

use crate::{Seen, Table};

/// The members among these that take partitions: all that have their brokers. If each waits, it is the member with most
/// partitions. Before the first partitions are assigned there are no former connections.
pub(crate) fn with_brokers(table: &Table, seen: &Seen, members: Vec<String>) -> Vec<String> {
    let waits = |name: &String| seen.present(name).is_some_and(|advert| advert.waits);
    if !members.iter().any(waits) || table.homes.shares().next().is_none() {
        return members;
    }
    let (waiting, free): (Vec<_>, Vec<_>) = members.into_iter().partition(waits);
    if !free.is_empty() {
        return free;
    }
    // Of several that have as many, the first by name.
    let one = waiting.into_iter().max_by_key(|name| (table.of(name).len(), Reverse(name.clone())));
    one.into_iter().collect()
}
