//! Each in turn.

use crate::endpoint::Endpoint;

/// The endpoint with the next turn.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    /// Turns that a seed skips before the first.
    seed: Option<u64>,
    /// The place from which the next one is looked for.
    next: usize,
}

impl RoundRobin {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: Some(seed), next: 0 }
    }

    /// The first of `among` whose turn has not been, of `all` endpoints.
    pub(crate) fn choose(&mut self, all: usize, among: &[usize]) -> Option<usize> {
        if let Some(seed) = self.seed.take_if(|_| all > 0) {
            self.next = (seed % all as u64) as usize;
        }
        let due = among.partition_point(|place| *place < self.next);
        let chosen = among.get(due).or_else(|| among.first()).copied()?;
        self.next = chosen + 1;
        Some(chosen)
    }

    pub(crate) fn carry_over(&mut self, old: &[Endpoint], new: &[Endpoint]) {
        self.next = match old.get(self.next) {
            Some(due) => new.partition_point(|endpoint| endpoint.name < due.name),
            // All had their turn. A new endpoint behind the last one is next, as if it had been there before.
            None => old.last().map_or(0, |last| new.partition_point(|endpoint| endpoint.name <= last.name)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::endpoints;
    use super::*;

    fn turns(policy: &mut RoundRobin, all: usize, among: &[usize], number: usize) -> Vec<usize> {
        (0..number).map(|_| policy.choose(all, among).unwrap()).collect()
    }

    #[test]
    fn each_has_its_turn_from_where_the_seed_says() {
        assert_eq!(turns(&mut RoundRobin::new(0), 3, &[0, 1, 2], 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(turns(&mut RoundRobin::new(5), 3, &[0, 1, 2], 4), [2, 0, 1, 2]);
    }

    #[test]
    fn one_that_is_left_out_loses_its_turn_alone() {
        let mut policy = RoundRobin::new(0);
        assert_eq!(turns(&mut policy, 4, &[0, 2, 3], 4), [0, 2, 3, 0]);
        assert_eq!(turns(&mut policy, 4, &[0, 1, 2, 3], 4), [1, 2, 3, 0]);
    }

    #[test]
    fn a_turn_survives_a_change_of_the_others() {
        let all = endpoints(4);
        let mut policy = RoundRobin::new(0);
        assert_eq!(turns(&mut policy, 4, &[0, 1, 2, 3], 2), [0, 1]);
        // `a` is removed: `c` is still next, now at index 1.
        policy.carry_over(&all, &all[1..]);
        assert_eq!(turns(&mut policy, 3, &[0, 1, 2], 3), [1, 2, 0]);
    }
}
