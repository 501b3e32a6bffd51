//! The first table of a cluster, for tests of its effects.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_cluster::{Advert, Seen, Sighting, Table, decide};

/// The table that a leader decides for these nodes, all in their first life and settled.
pub(super) fn first_table(adverts: &BTreeMap<String, Advert>) -> Table {
    table_after(&Table::default(), adverts)
}

/// The table that a leader decides after another one, when only these nodes are members. An advert of life 0 is of a dead node.
pub(super) fn table_after(before: &Table, adverts: &BTreeMap<String, Advert>) -> Table {
    let sighting = Sighting { life: 1, settled: true };
    let seen = Seen {
        members: adverts.iter().filter(|it| it.1.life > 0).map(|(name, _)| (name.clone(), sighting)).collect(),
        adverts: adverts.clone(),
        may_bury: true,
        may_move: true,
        may_balance: true,
        factors: None,
        expected: BTreeSet::new(),
        linked: None,
    };
    decide(before, &seen).unwrap_or_default()
}
