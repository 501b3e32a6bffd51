//! The cluster as the thread that speaks to the bus knows it.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_cluster::{Advert, Table};

use super::super::weights::Heard;

/// The knowledge of the thread that speaks to the bus.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(in crate::driver) struct Standpoint {
    pub(in crate::driver) member: bool,
    /// Whether the newest table that the node knows has it: it has a share, or will be a member again.
    pub(in crate::driver) has_place: bool,
    pub(in crate::driver) leads: bool,
    pub(in crate::driver) life: u64,
    pub(in crate::driver) leaving: bool,
    pub(in crate::driver) table: Table,
    pub(in crate::driver) adverts: BTreeMap<String, Advert>,
    pub(in crate::driver) bus: bool,
    /// The leases that members say they have.
    pub(in crate::driver) leases: BTreeMap<String, Duration>,
    /// The loads of members, where this node leads and shares follow measures.
    pub(in crate::driver) heard: BTreeMap<String, Heard>,
    /// Members whose load is not known there.
    pub(in crate::driver) unmeasured: Vec<String>,
}

impl Standpoint {
    /// Whether a table has called off a move which a table of this epoch has begun for this life.
    pub(super) fn has_called_off(&self, (life, epoch): (u64, u64), id: u64) -> bool {
        self.life != life || self.table.epoch > epoch && !self.table.moves.iter().any(|it| it.id == id)
    }

    /// Whether the node of this name works nothing any more that another node would take. `passes` says whether it still
    /// passes messages of brokers on.
    pub(super) fn has_handed_over(&self, name: &str, passes: bool) -> bool {
        let willing = |(other, life): (&String, &u64)| {
            let advert = self.adverts.get(other).filter(|advert| advert.life == *life);
            other != name && advert.is_some_and(|advert| !advert.leaving)
        };
        if !self.bus || (!self.member && !self.has_place) {
            return true;
        }
        let alone = !self.table.lives.iter().any(willing);
        let works = !self.table.of(name).is_empty();
        self.member && self.leaving && (alone || (!works && !passes))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::Move;

    use super::*;
    use crate::driver::counters::Counters;
    use crate::driver::first_table::first_table;

    /// The node "a" of a table with "b", which has only moves to forward.
    fn leaving() -> Standpoint {
        let advert = |leaving: bool| Advert { life: 1, leaving, ..Advert::default() };
        let adverts: BTreeMap<String, Advert> =
            [("a".to_owned(), advert(true)), ("b".to_owned(), advert(false))].into();
        let mut table = first_table(&adverts);
        table.lives.insert("a".to_owned(), 1);
        let (member, has_place, leaving, bus) = (true, true, true, true);
        Standpoint { member, has_place, leaving, table, adverts, bus, ..Standpoint::default() }
    }

    #[test]
    fn a_member_ends_the_connections_of_dead_members_first() {
        let counters = Counters::default();
        counters.set_passing(0, 1);
        assert!(!leaving().has_handed_over("a", counters.passes()));
        counters.set_passing(0, 0);
        assert!(leaving().has_handed_over("a", counters.passes()));
    }

    #[test]
    fn a_move_is_called_off_by_a_later_table_or_life() {
        let moved = Move { id: 300, partitions: vec![1], from: "a".into(), to: "b".into() };
        let begins = Table { epoch: 7, moves: vec![moved], ..Table::default() };
        let at = |table: &Table| Standpoint { life: 1, table: table.clone(), ..Standpoint::default() };
        let ends = Table { epoch: 8, moves: Vec::new(), ..begins.clone() };
        assert!(!at(&Table { epoch: 6, ..ends.clone() }).has_called_off((1, 7), 300), "the table is not heard of yet");
        assert!(!at(&begins).has_called_off((1, 7), 300));
        assert!(!at(&Table { epoch: 8, ..begins.clone() }).has_called_off((1, 7), 300));
        assert!(at(&ends).has_called_off((1, 7), 300));
        assert!(at(&begins).has_called_off((2, 7), 300), "another life has begun");
    }

    #[test]
    fn a_node_that_is_not_yet_a_member_again_has_a_share() {
        let again = Standpoint { member: false, table: Table::default(), ..leaving() };
        assert!(!again.has_handed_over("a", false));
        let without_place = Standpoint { has_place: false, ..again.clone() };
        assert!(without_place.has_handed_over("a", false));
        let without_bus = Standpoint { bus: false, ..again };
        assert!(without_bus.has_handed_over("a", false));
    }
}
