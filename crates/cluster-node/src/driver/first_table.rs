//! The first table of a cluster, for tests of its effects.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::{Advert, Seen, Sighting, Table, decide};

/// The table that a leader decides for these nodes, all in their first life and settled.
pub(super) fn first_table(adverts: &BTreeMap<String, Advert>) -> Table {
    let sighting = Sighting { life: 1, settled: true };
    let seen = Seen {
        members: adverts.keys().map(|name| (name.clone(), sighting)).collect(),
        adverts: adverts.clone(),
        may_bury: true,
        may_move: true,
        may_balance: true,
        factors: None,
        expected: BTreeSet::new(),
    };
    decide(&Table::default(), &seen).unwrap_or_default()
}
