//! The least busy one.

use super::round_robin::RoundRobin;
use crate::endpoint::Endpoint;

/// The load that an answer is assumed to add, as a part of 1, until the next report. Reports come once per observation,
/// some 15 s apart; without this, all clients in between would be sent to one endpoint.
const LOAD_PER_ANSWER: f64 = 0.01;
/// Loads that differ by less than this are equal, and take turns.
const EQUAL: f64 = 1e-9;

/// Answers given since the last report.
#[derive(Debug)]
pub(crate) struct LeastLoaded {
    /// Answers by place.
    given: Vec<u32>,
    equals: RoundRobin,
}

impl LeastLoaded {
    pub(crate) fn new(seed: u64) -> Self {
        Self { given: Vec::new(), equals: RoundRobin::new(seed) }
    }

    pub(crate) fn choose(&mut self, endpoints: &[Endpoint], among: &[usize]) -> Option<usize> {
        self.given.resize(endpoints.len(), 0);
        let load_of = |place: usize| {
            let reported = endpoints.get(place).map_or(1.0, |endpoint| endpoint.load.part());
            reported + f64::from(self.given.get(place).copied().unwrap_or(0)) * LOAD_PER_ANSWER
        };
        let least = among.iter().map(|place| load_of(*place)).fold(f64::INFINITY, f64::min);
        let equal: Vec<usize> = among.iter().copied().filter(|place| load_of(*place) <= least + EQUAL).collect();
        let chosen = self.equals.choose(endpoints.len(), &equal)?;
        if let Some(given) = self.given.get_mut(chosen) {
            *given = given.saturating_add(1);
        }
        Some(chosen)
    }

    /// New endpoints bring new loads, in which the answers given so far have shown.
    pub(crate) fn carry_over(&mut self, old: &[Endpoint], new: &[Endpoint]) {
        self.given.clear();
        self.equals.carry_over(old, new);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::endpoints;
    use super::*;
    use crate::endpoint::Load;

    fn loaded(loads: &[f64]) -> Vec<Endpoint> {
        let mut all = endpoints(loads.len() as u8);
        all.iter_mut().zip(loads).for_each(|(endpoint, load)| endpoint.load = Load::new(*load).unwrap());
        all
    }

    fn turns(policy: &mut LeastLoaded, all: &[Endpoint], number: usize) -> String {
        let among: Vec<usize> = (0..all.len()).collect();
        (0..number).map(|_| all[policy.choose(all, &among).unwrap()].name.to_string()).collect()
    }

    #[test]
    fn the_least_busy_one_is_named_until_it_has_caught_up() {
        let mut policy = LeastLoaded::new(0);
        let all = loaded(&[0.9, 0.20, 0.23]);
        assert_eq!(turns(&mut policy, &all, 7), "bbbcbcb");
    }

    #[test]
    fn equals_take_turns() {
        assert_eq!(turns(&mut LeastLoaded::new(0), &loaded(&[0.5, 0.5, 0.5]), 6), "abcabc");
    }

    #[test]
    fn a_new_report_replaces_the_assumed_load() {
        let mut policy = LeastLoaded::new(0);
        let all = loaded(&[0.1, 0.15]);
        assert_eq!(turns(&mut policy, &all, 7), "aaaaaba");
        policy.carry_over(&all, &all);
        assert_eq!(turns(&mut policy, &all, 5), "aaaaa");
    }
}
