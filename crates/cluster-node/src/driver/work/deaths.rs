//! Partitions that were given to other nodes when a node died.

use std::collections::BTreeSet;

use tidegate_cluster::{Former, Home, Table};

use crate::driver::restore::Wanted;

/// For each of the dead nodes of these partitions, all partitions that a table gave to other nodes at its death. Some of
/// these nodes may have died before they had them, and others have the partitions since.
pub(super) fn given_at_deaths(table: Option<&Table>, partitions: &Wanted, nodes: usize) -> Vec<BTreeSet<u16>> {
    let given_at = |at: usize| {
        let epochs: BTreeSet<u64> = partitions.values().filter_map(|wanted| left_at(wanted, at)).collect();
        let is_given = |home: Option<&Home>| home.is_some_and(|home| has_come_at(home, &epochs));
        table.into_iter().flat_map(|table| table.homes.partitions(is_given)).collect()
    };
    (0..nodes).map(given_at).collect()
}

/// The epoch at which a partition left the dead node at this place among its former homes: the next one has it since.
fn left_at((since, former): &(u64, Vec<Former>), at: usize) -> Option<u64> {
    at.checked_sub(1).map_or(Some(*since), |next| former.get(next).map(|former| former.since))
}

/// Whether the partitions of a home came to it, or to a dead one before it, at one of these epochs.
fn has_come_at(home: &Home, epochs: &BTreeSet<u64>) -> bool {
    epochs.contains(&home.since) || home.former.iter().any(|former| epochs.contains(&former.since))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn home(node: &str, since: u64, former: &[(&str, u64)]) -> Home {
        let former = former.iter().map(|(node, since)| Former { node: (*node).to_owned(), since: *since, by: None });
        Home { node: node.to_owned(), since, by: None, first: false, former: former.collect() }
    }

    #[test]
    fn a_home_that_dies_early_changes_no_division() {
        // Node `c` died in epoch 10: `a` got half of its partitions, `b` the others. `b` died in epoch 12, with these and one
        // further partition.
        let homes = [
            (1, home("a", 10, &[])),
            (2, home("a", 12, &[("b", 10), ("c", 5)])),
            (3, home("a", 12, &[("b", 4)])),
            (4, home("a", 3, &[])),
        ];
        let mut table = Table::default();
        for (partition, home) in &homes {
            Arc::make_mut(&mut table.homes).set(*partition, Some(home.clone()));
        }
        let wanted: Wanted = [(2, (homes[1].1.since, homes[1].1.former.clone()))].into();
        let [of_b, of_c] = <[_; 2]>::try_from(given_at_deaths(Some(&table), &wanted, 2)).unwrap();
        assert_eq!((of_b, of_c), ([2, 3].into(), [1, 2].into()), "that of `c` is as before the death of `b`");
        assert_eq!(given_at_deaths(None, &wanted, 1), [BTreeSet::new()]);
    }
}
