//! Decides which nodes are handed over to which gateway, so that every gateway reaches its ideal number without
//! oscillation (`CTX-42`, `CTX-44`).
//!
//! Five settings keep churn low. A reallocation begins when a gateway is off its ideal by `start`, and continues until
//! all are within `stop`. A cycle covers only part of the gap (`gain`), since scores that depend on the number of nodes
//! respond to each move. A cycle moves `max_per_cycle` at most. A moved node is not moved again for `cooldown`.

use std::collections::HashMap;
use std::time::Duration;

use crate::real::{real, whole};

/// How nodes are moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReallocationSettings {
    /// Part of its ideal number by which a gateway has to be off before anybody is moved.
    pub start: f64,
    /// Part of the ideal number within which all gateways have to be for a reallocation to end; below `start`.
    pub stop: f64,
    /// Part of a gap that one cycle covers, above 0 and up to 1. With scores that fall as nodes come, 1 swings to and
    /// fro.
    pub gain: f64,
    /// Most handovers of a cycle.
    pub max_per_cycle: usize,
    /// How long a node that was handed over stays where it is, as far as we decide.
    pub cooldown: Duration,
}

impl Default for ReallocationSettings {
    fn default() -> Self {
        Self { start: 0.02, stop: 0.005, gain: 0.5, max_per_cycle: 1_000, cooldown: Duration::from_secs(600) }
    }
}

/// Settings that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("handovers need 0 <= stop < start <= 1, a gain above 0 and up to 1, and at least 1 handover in a cycle")]
pub struct ReallocationError;

/// A gateway for balancing.
#[derive(Clone, Debug)]
pub struct Holder<'a> {
    /// How many nodes it has, those on their way to it included.
    pub nodes: u64,
    /// How many it should have.
    pub ideal: u64,
    /// The nodes connected to it, in an order of preference for being moved.
    pub connected: Vec<&'a str>,
    /// Whether it is about to leave: then all of its nodes are moved, also recently moved ones.
    pub leaving: bool,
}

/// A node and the gateway (its place in the list) that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move<'a> {
    /// The node.
    pub node: &'a str,
    /// From where.
    pub from: usize,
    /// To where.
    pub to: usize,
}

/// Decides who moves, cycle by cycle.
#[derive(Debug)]
pub struct Reallocation {
    settings: ReallocationSettings,
    balancing: bool,
    /// When each node was moved last.
    moved: HashMap<Box<str>, Duration>,
}

impl Reallocation {
    /// Checks the settings.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn new(settings: ReallocationSettings) -> Result<Self, ReallocationError> {
        let ReallocationSettings { start, stop, gain, max_per_cycle, .. } = settings;
        let valid = 0.0 <= stop && stop < start && start <= 1.0 && gain > 0.0 && gain <= 1.0 && max_per_cycle > 0;
        if !valid {
            return Err(ReallocationError);
        }
        Ok(Self { settings, balancing: false, moved: HashMap::new() })
    }

    /// Notes that a node was moved, by whomever: it stays for the cool-down.
    pub fn note(&mut self, at: Duration, node: &str) {
        self.moved.insert(node.into(), at);
    }

    /// The moves of a cycle. Moves are noted as made.
    pub fn cycle<'a>(&mut self, now: Duration, holders: &[Holder<'a>]) -> Vec<Move<'a>> {
        self.moved.retain(|_, at| now.saturating_sub(*at) < self.settings.cooldown);
        let limit = if self.balancing { self.settings.stop } else { self.settings.start };
        self.balancing = holders.iter().any(|holder| is_off(holder, limit));
        if !self.balancing {
            return Vec::new();
        }
        let moves = self.choose(holders);
        for chosen in &moves {
            self.note(now, chosen.node);
        }
        moves
    }

    fn choose<'a>(&self, holders: &[Holder<'a>]) -> Vec<Move<'a>> {
        let wanted = |gap: u64| if gap == 0 { 0 } else { whole((real(gap) * self.settings.gain).ceil()) };
        let mut missing: Vec<(usize, u64)> = Vec::new();
        for (place, holder) in holders.iter().enumerate() {
            missing.push((place, wanted(holder.ideal.saturating_sub(holder.nodes))));
        }
        // The gateway that lacks most is filled first.
        missing.sort_by_key(|(place, missing)| (std::cmp::Reverse(*missing), *place));
        let mut seats = missing.into_iter().flat_map(|(place, missing)| (0..missing).map(move |_| place));
        let mut moves = Vec::new();
        for (from, holder) in holders.iter().enumerate() {
            let surplus = wanted(holder.nodes.saturating_sub(holder.ideal));
            let free = holder.connected.iter().filter(|node| holder.leaving || !self.moved.contains_key(**node));
            for node in free.take(usize::try_from(surplus).unwrap_or(usize::MAX)) {
                if moves.len() >= self.settings.max_per_cycle {
                    return moves;
                }
                let Some(to) = seats.next() else { return moves };
                moves.push(Move { node, from, to });
            }
        }
        moves
    }
}

/// Whether a gateway is off its ideal by more than a part of it. One node is never worth a move: with few nodes there
/// is no number that fits better.
fn is_off(holder: &Holder<'_>, part: f64) -> bool {
    let gap = holder.nodes.abs_diff(holder.ideal);
    if holder.leaving { gap > 0 } else { gap > 1 && real(gap) > real(holder.ideal) * part }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(prefix: &str, count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{prefix}{n}")).collect()
    }

    fn holder(names: &[String], ideal: u64) -> Holder<'_> {
        Holder {
            nodes: names.len() as u64,
            ideal,
            connected: names.iter().map(String::as_str).collect(),
            leaving: false,
        }
    }

    fn settings() -> ReallocationSettings {
        ReallocationSettings { gain: 1.0, ..ReallocationSettings::default() }
    }

    #[test]
    fn surplus_goes_to_where_it_lacks() {
        let (a, b, c) = (names("a", 300), names("b", 0), names("c", 60));
        let mut reallocation = Reallocation::new(settings()).unwrap();
        let holders = [holder(&a, 120), holder(&b, 120), holder(&c, 120)];
        let moves = reallocation.cycle(Duration::ZERO, &holders);
        let to = |place| moves.iter().filter(|one| one.from == 0 && one.to == place).count();
        assert_eq!((moves.len(), to(1), to(2)), (180, 120, 60));
    }

    #[test]
    fn a_small_gap_moves_no_node_until_it_grows() {
        let mut reallocation = Reallocation::new(settings()).unwrap();
        let (a, b) = (names("a", 1010), names("b", 990));
        assert!(reallocation.cycle(Duration::ZERO, &[holder(&a, 1000), holder(&b, 1000)]).is_empty());
        let (a, b) = (names("a", 1030), names("b", 970));
        assert_eq!(reallocation.cycle(Duration::ZERO, &[holder(&a, 1000), holder(&b, 1000)]).len(), 30);
        let (a, b) = (names("x", 1010), names("y", 990));
        let begun = reallocation.cycle(Duration::ZERO, &[holder(&a, 1000), holder(&b, 1000)]);
        assert_eq!(begun.len(), 10, "a reallocation continues until all are within `stop`");
    }

    #[test]
    fn one_node_too_many_is_left_where_it_is() {
        let mut reallocation = Reallocation::new(settings()).unwrap();
        let (a, b) = (names("a", 2), names("b", 0));
        assert!(reallocation.cycle(Duration::ZERO, &[holder(&a, 1), holder(&b, 1)]).is_empty());
    }

    #[test]
    fn a_node_that_was_moved_is_left_alone_for_the_cool_down() {
        let mut reallocation = Reallocation::new(settings()).unwrap();
        let (a, b) = (names("a", 10), names("b", 0));
        let there = [holder(&a, 5), holder(&b, 5)];
        assert_eq!(reallocation.cycle(Duration::ZERO, &there).len(), 5);
        let back = [holder(&b, 5), Holder { connected: a[..5].iter().map(String::as_str).collect(), ..holder(&a, 5) }];
        assert!(reallocation.cycle(Duration::from_secs(540), &back).is_empty());
        assert_eq!(reallocation.cycle(Duration::from_secs(660), &back).len(), 5);
    }

    #[test]
    fn a_gateway_that_leaves_loses_everybody() {
        let mut reallocation = Reallocation::new(ReallocationSettings { gain: 0.5, ..settings() }).unwrap();
        let (mut a, b) = (names("a", 9), names("b", 0));
        reallocation.note(Duration::ZERO, "a0");
        for cycle in 0..9 {
            let holders = [Holder { leaving: true, ..holder(&a, 0) }, holder(&b, 9)];
            let gone: Vec<String> =
                reallocation.cycle(Duration::from_secs(cycle), &holders).iter().map(|m| m.node.to_owned()).collect();
            a.retain(|node| !gone.contains(node));
        }
        assert!(a.is_empty(), "{a:?}");
    }

    #[test]
    fn a_cycle_has_a_cap() {
        let mut reallocation = Reallocation::new(ReallocationSettings { max_per_cycle: 7, ..settings() }).unwrap();
        let (a, b) = (names("a", 100), names("b", 0));
        assert_eq!(reallocation.cycle(Duration::ZERO, &[holder(&a, 50), holder(&b, 50)]).len(), 7);
    }

    #[test]
    fn contradictions_are_refused() {
        let with =
            |start, stop, gain| Reallocation::new(ReallocationSettings { start, stop, gain, ..settings() }).is_err();
        assert!(with(0.02, 0.02, 1.0) && with(0.02, 0.01, 0.0) && with(f64::NAN, 0.01, 1.0) && !with(0.02, 0.01, 0.5));
        assert!(Reallocation::new(ReallocationSettings { max_per_cycle: 0, ..settings() }).is_err());
    }

    proptest! {
        #[test]
        fn no_node_is_moved_from_below_or_to_above_its_ideal(
            counts in proptest::collection::vec((0_usize..200, 0.0_f64..1.0), 2..8), gain in 0.1_f64..=1.0,
        ) {
            let nodes: Vec<Vec<String>> = counts.iter().enumerate().map(|(n, (count, _))| names(&format!("{n}-"), *count)).collect();
            let total = nodes.iter().map(Vec::len).sum::<usize>() as u64;
            let scores: Vec<_> = counts.iter().map(|(_, score)| Some(*score)).collect();
            let ideal = crate::ideal::ideal_numbers(total, &scores);
            let holders: Vec<_> = nodes.iter().zip(&ideal).map(|(nodes, ideal)| holder(nodes, *ideal)).collect();
            let mut reallocation = Reallocation::new(ReallocationSettings { gain, ..settings() }).unwrap();
            let moves = reallocation.cycle(Duration::ZERO, &holders);
            for (place, holder) in holders.iter().enumerate() {
                let gone = moves.iter().filter(|one| one.from == place).count() as u64;
                let come = moves.iter().filter(|one| one.to == place).count() as u64;
                prop_assert!(gone == 0 || holder.nodes - gone >= holder.ideal);
                prop_assert!(come == 0 || holder.nodes + come <= holder.ideal);
            }
            let mut moved: Vec<_> = moves.iter().map(|one| one.node).collect();
            moved.sort_unstable();
            moved.dedup();
            prop_assert_eq!(moved.len(), moves.len());
        }
    }
}
