//! Smooth weighted round robin: each endpoint gets its share, and its turns are spread evenly among the others' turns.
//!
//! Every endpoint's credit grows by its weight with each answer. The one with the most is chosen and pays the sum of
//! all weights. Over as many answers as the sum of the weights each is chosen exactly as often as its weight says.

use super::place_of;
use crate::endpoint::Endpoint;

/// The credit of each endpoint.
#[derive(Debug)]
pub(crate) struct Weighted {
    /// The first turn among equals.
    seed: u64,
    /// By place; its sum is 0 as long as the endpoints that can be chosen stay the same.
    credits: Vec<i64>,
}

impl Weighted {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, credits: Vec::new() }
    }

    pub(crate) fn choose(&mut self, endpoints: &[Endpoint], among: &[usize]) -> Option<usize> {
        self.credits.resize(endpoints.len(), 0);
        let weight_of = |place: usize| endpoints.get(place).map_or(0, |endpoint| i64::from(endpoint.weight));
        // If no endpoint has a weight, all have the same.
        let even = among.iter().all(|place| weight_of(*place) == 0);
        let first = usize::try_from(self.seed % among.len().max(1) as u64).unwrap_or(0);
        let (mut total, mut best) = (0, None);
        for place in among.iter().cycle().skip(first).take(among.len()) {
            let weight = if even { 1 } else { weight_of(*place) };
            let Some(credit) = self.credits.get_mut(*place).filter(|_| weight > 0) else { continue };
            *credit += weight;
            total += weight;
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((*place, *credit));
            }
        }
        let (chosen, _) = best?;
        if let Some(credit) = self.credits.get_mut(chosen) {
            *credit -= total;
        }
        Some(chosen)
    }

    pub(crate) fn carry_over(&mut self, old: &[Endpoint], new: &[Endpoint]) {
        // A credit is only valid among the same endpoints with the same weights. Old debts would keep a returning
        // endpoint out of the answers, or give it all of them.
        let same = old.len() == new.len()
            && old
                .iter()
                .zip(new)
                .all(|(old, new)| old.name == new.name && old.weight == new.weight && alike(old, new));
        if !same {
            let limit = |place: usize| new.get(place).map_or(0, |endpoint| i64::from(endpoint.weight));
            let credit = |endpoint: &Endpoint| place_of(old, &endpoint.name).and_then(|place| self.credits.get(place));
            let credits = new.iter().map(|endpoint| credit(endpoint).copied().unwrap_or(0));
            self.credits = credits.enumerate().map(|(place, kept)| kept.clamp(-limit(place), limit(place))).collect();
        }
    }
}

/// Whether both can be chosen, or both cannot.
fn alike(old: &Endpoint, new: &Endpoint) -> bool {
    old.healthy == new.healthy && old.draining == new.draining
}

#[cfg(test)]
mod tests {
    use super::super::tests::endpoints;
    use super::*;

    fn weighing(weights: &[u16]) -> Vec<Endpoint> {
        let mut all = endpoints(weights.len() as u8);
        all.iter_mut().zip(weights).for_each(|(endpoint, weight)| endpoint.weight = *weight);
        all
    }

    fn turns(policy: &mut Weighted, all: &[Endpoint], number: usize) -> String {
        let among: Vec<usize> = (0..all.len()).collect();
        (0..number).map(|_| all[policy.choose(all, &among).unwrap()].name.to_string()).collect()
    }

    #[test]
    fn turns_are_spread_evenly() {
        assert_eq!(turns(&mut Weighted::new(0), &weighing(&[5, 1, 1]), 14), "aabacaaaabacaa");
    }

    #[test]
    fn shares_are_exact_over_a_whole_round() {
        let all = weighing(&[7, 0, 2, 1]);
        let turns = turns(&mut Weighted::new(3), &all, 1000);
        let count = |name| turns.matches(name).count();
        assert_eq!((count('a'), count('b'), count('c'), count('d')), (700, 0, 200, 100));
    }

    #[test]
    fn the_seed_decides_the_first_of_equals() {
        assert_eq!(turns(&mut Weighted::new(1), &weighing(&[1, 1, 1]), 4), "bcab");
    }

    #[test]
    fn without_any_weight_all_are_even() {
        assert_eq!(turns(&mut Weighted::new(0), &weighing(&[0, 0]), 4), "abab");
    }

    #[test]
    fn an_unchanged_report_keeps_credits_and_a_change_clears_them() {
        let all = weighing(&[5, 1, 1]);
        let mut policy = Weighted::new(0);
        let first = turns(&mut policy, &all, 3);
        policy.carry_over(&all, &all);
        assert_eq!(first + &turns(&mut policy, &all, 4), "aabacaa");
        // The heavy one is removed; the others owe at most one turn.
        let _ = turns(&mut policy, &all, 2);
        policy.carry_over(&all, &all[1..]);
        let after = turns(&mut policy, &all[1..], 10);
        assert!(after.matches('b').count().abs_diff(5) <= 1, "{after}");
    }
}
