//! A node's check of itself: whether it serves the partitions that the table gives it.
//!
//! A fault in tables, leases or shards always has the same effect: the table gives a partition to a node which does not
//! serve it. So this check compares the table with the shards, and no step between them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Table;

/// A difference that lasts for longer than this is more than a table on its way to the shards, or a move.
pub const DIFFERENCE_LIMIT: Duration = Duration::from_secs(2);
/// A difference is given at least this time to pass before the node ends.
pub const SHORTEST_BOUND: Duration = Duration::from_secs(10);
/// A wait for the bus to confirm the node's memory is excused for at most this many bounds. A node that waits longer
/// has a lease, but a log that no longer works: another node can serve its partitions.
pub const LONGEST_SAVE: u32 = 4;
/// Time between two looks that counts at most. In a longer time the process stood still, and could mend nothing.
const LONGEST_STEP: Duration = Duration::from_secs(2);

/// A node's view of itself at one time.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The node's name.
    pub name: &'a str,
    /// The newest table that it knows.
    pub table: &'a Table,
    /// Whether its lease is good: without one it has to serve no client.
    pub has_lease: bool,
    /// Whether it fetches stores of dead nodes from the bus. That takes as long as it takes.
    pub is_fetching: bool,
    /// Whether it waits until the bus confirms its memory.
    pub is_saving: bool,
    /// The partitions that its shards serve; `None` when they do not say.
    pub serves: Option<&'a BTreeSet<u16>>,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionDifference {
    /// Partitions that the node should serve and does not.
    pub missing: usize,
    /// Partitions that it serves and should not.
    pub excess: usize,
    /// Whether that has lasted for longer than a move takes: the node is not ready.
    pub lasts: bool,
    /// Whether it has lasted for so long that the process has to end: started again, it is another life.
    pub ends: bool,
}

/// Compares the partitions that a node should serve with those it serves.
#[derive(Clone, Debug)]
pub struct Watchdog {
    bound: Duration,
    last: Option<Duration>,
    /// For how long each look has found a difference.
    lasted: Duration,
    /// The part of that in which nothing has excused it.
    unexcused: Duration,
    /// The part of that in which the node waited for its memory.
    saving: Duration,
}

impl Watchdog {
    /// For a node with this lease. A difference ends it after a lease, and not before [`SHORTEST_BOUND`]. Time in which
    /// it waits for the bus does not count: of a wait for its memory, [`LONGEST_SAVE`] times as long.
    pub fn new(lease: Duration) -> Self {
        let none = Duration::ZERO;
        Self { bound: lease.max(SHORTEST_BOUND), last: None, lasted: none, unexcused: none, saving: none }
    }

    /// There is no difference any more.
    const fn reset(&mut self) {
        (self.lasted, self.unexcused, self.saving) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    }

    /// A difference has lasted for one more step. Only missing partitions can wait for the bus.
    fn note(&mut self, step: Duration, is_excess: bool, sight: &Sight<'_>) {
        self.lasted += step;
        let is_fetching = !is_excess && sight.is_fetching;
        let is_saving = !is_excess && !is_fetching && sight.is_saving;
        if is_saving {
            self.saving += step;
        }
        let is_excused = is_fetching || is_saving && self.saving <= self.bound.saturating_mul(LONGEST_SAVE);
        if !is_excused {
            self.unexcused += step;
        }
    }

    /// Looks once. `now` is a monotonic time.
    pub fn look(&mut self, now: Duration, sight: &Sight<'_>) -> PartitionDifference {
        let step = now.saturating_sub(self.last.replace(now).unwrap_or(now)).min(LONGEST_STEP);
        let none = BTreeSet::new();
        let serves = sight.serves.unwrap_or(&none);
        // In order.
        let own = if sight.has_lease { sight.table.of(sight.name) } else { Vec::new() };
        if own.iter().eq(serves) {
            self.reset();
            return PartitionDifference::default();
        }
        let missing = own.iter().filter(|it| !serves.contains(it) && sight.table.is_settled(**it)).count();
        let excess = serves.iter().filter(|it| own.binary_search(it).is_err()).count();
        if missing > 0 || excess > 0 {
            self.note(step, excess > 0, sight);
        } else {
            self.reset();
        }
        let (lasts, ends) = (self.lasted > DIFFERENCE_LIMIT, self.unexcused > self.bound);
        PartitionDifference { missing, excess, lasts, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Move;

    const LEASE: Duration = Duration::from_secs(12);

    /// Two partitions of this node, and one of another.
    fn table() -> Table {
        let mut table = Table { epoch: 1, ..Table::default() };
        table.give(0, "me", 1, None);
        table.give(1, "me", 1, None);
        table.give(2, "you", 1, None);
        table
    }

    fn sight<'a>(table: &'a Table, serves: &'a BTreeSet<u16>) -> Sight<'a> {
        Sight { name: "me", table, has_lease: true, is_fetching: false, is_saving: false, serves: Some(serves) }
    }

    /// Looks each second from a time on; says after how many seconds a difference lasts first.
    fn first(watchdog: &mut Watchdog, sight: &Sight<'_>, holds: fn(&PartitionDifference) -> bool) -> Option<u64> {
        (0..100).find(|second| holds(&watchdog.look(Duration::from_secs(1_000 + *second), sight)))
    }

    #[test]
    fn a_node_that_serves_its_partitions_is_right() {
        let (table, serves) = (table(), BTreeSet::from([0, 1]));
        assert_eq!(
            first(&mut Watchdog::new(LEASE), &sight(&table, &serves), |it| *it != PartitionDifference::default()),
            None
        );
    }

    #[test]
    fn a_lasting_difference_makes_it_not_ready_and_then_ends_it() {
        let table = table();
        for (serves, missing, excess) in [(vec![0], 1, 0), (vec![0, 1, 2], 0, 1), (vec![], 2, 0)] {
            let serves = serves.into_iter().collect();
            let sight = sight(&table, &serves);
            let difference = Watchdog::new(LEASE).look(Duration::ZERO, &sight);
            assert_eq!(difference, PartitionDifference { missing, excess, lasts: false, ends: false });
            assert_eq!(first(&mut Watchdog::new(LEASE), &sight, |it| it.lasts), Some(3));
            assert_eq!(first(&mut Watchdog::new(LEASE), &sight, |it| it.ends), Some(13));
            assert_eq!(first(&mut Watchdog::new(Duration::from_secs(1)), &sight, |it| it.ends), Some(11));
        }
        let none = BTreeSet::new();
        let silent = Sight { serves: None, ..sight(&table, &none) };
        assert_eq!(first(&mut Watchdog::new(LEASE), &silent, |it| it.ends), Some(13), "shards that say nothing");
    }

    #[test]
    fn a_difference_that_passes_restarts_its_bound() {
        let (table, all, none) = (table(), BTreeSet::from([0, 1]), BTreeSet::new());
        let mut watchdog = Watchdog::new(LEASE);
        for second in 0..100 {
            let serves = if second % 2 == 0 { &none } else { &all };
            assert!(!watchdog.look(Duration::from_secs(second), &sight(&table, serves)).lasts);
        }
    }

    #[test]
    fn what_moves_or_is_fetched_need_not_be_served() {
        let (mut table, serves) = (table(), BTreeSet::from([0]));
        table.moves.push(Move { id: 1, partitions: vec![1], from: "me".into(), to: "you".into() });
        assert_eq!(Watchdog::new(LEASE).look(LEASE, &sight(&table, &serves)), PartitionDifference::default());
        table.moves.clear();
        table.inherit(1, "me", 2, true);
        assert_eq!(Watchdog::new(LEASE).look(LEASE, &sight(&table, &serves)), PartitionDifference::default());
        // It is served as soon as it is fetched, which the table says later.
        let serves = BTreeSet::from([0, 1]);
        assert_eq!(Watchdog::new(LEASE).look(LEASE, &sight(&table, &serves)), PartitionDifference::default());
    }

    #[test]
    fn without_a_lease_it_should_serve_nothing() {
        let (table, none, all) = (table(), BTreeSet::new(), BTreeSet::from([0, 1]));
        let without = |serves| Sight { has_lease: false, ..sight(&table, serves) };
        assert_eq!(first(&mut Watchdog::new(LEASE), &without(&none), |it| it.lasts || it.ends), None);
        assert_eq!(first(&mut Watchdog::new(LEASE), &without(&all), |it| it.lasts), Some(3));
    }

    #[test]
    fn a_stop_of_the_process_is_no_lasting_difference() {
        let (table, none) = (table(), BTreeSet::new());
        let mut watchdog = Watchdog::new(LEASE);
        watchdog.look(Duration::from_secs(0), &sight(&table, &none));
        assert!(!watchdog.look(Duration::from_secs(3_600), &sight(&table, &none)).lasts);
    }

    #[test]
    fn a_node_that_fetches_is_not_ready_and_does_not_end() {
        let (table, none) = (table(), BTreeSet::new());
        let sight = Sight { is_fetching: true, ..sight(&table, &none) };
        assert_eq!(first(&mut Watchdog::new(LEASE), &sight, |it| it.lasts), Some(3));
        assert_eq!(first(&mut Watchdog::new(LEASE), &sight, |it| it.ends), None);
    }

    #[test]
    fn a_wait_for_the_bus_leaves_the_whole_bound() {
        let (table, none) = (table(), BTreeSet::new());
        let sight = sight(&table, &none);
        for (is_fetching, is_saving) in [(true, false), (false, true)] {
            let mut watchdog = Watchdog::new(LEASE);
            let waits = Sight { is_fetching, is_saving, ..sight };
            let ends: Vec<_> = (0..=40).map(|second| watchdog.look(Duration::from_secs(second), &waits).ends).collect();
            assert!(!ends.contains(&true));
            // The wait is over, and the shards have not followed yet.
            let after = (41..100).find(|second| watchdog.look(Duration::from_secs(*second), &sight).ends);
            assert_eq!(after, Some(41 + 12));
        }
    }

    #[test]
    fn a_wait_for_the_bus_excuses_no_partition_too_many() {
        let (table, serves) = (table(), BTreeSet::from([0, 1, 2]));
        let sight = Sight { is_fetching: true, is_saving: true, ..sight(&table, &serves) };
        assert_eq!(first(&mut Watchdog::new(LEASE), &sight, |it| it.ends), Some(13));
    }

    #[test]
    fn a_node_whose_memory_is_never_saved_ends() {
        let (table, none) = (table(), BTreeSet::new());
        let sight = Sight { is_saving: true, ..sight(&table, &none) };
        assert_eq!(first(&mut Watchdog::new(LEASE), &sight, |it| it.lasts), Some(3));
        let bounds = u64::from(LONGEST_SAVE) + 1;
        assert_eq!(first(&mut Watchdog::new(LEASE), &sight, |it| it.ends), Some(bounds * 12 + 1));
    }
}
