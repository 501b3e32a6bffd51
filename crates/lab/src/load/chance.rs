//! Chance that can be repeated: one number decides everything.

use tidegate_random::SplitMix64;
pub use tidegate_random::mix;

/// Numbers that look random and follow from a seed.
#[derive(Clone, Debug)]
pub struct Chance {
    series: SplitMix64,
}

impl Chance {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { series: SplitMix64::new(seed) }
    }

    /// A generator for a part of the whole, such as a client.
    pub const fn of_part(seed: u64, part: u64) -> Self {
        Self::new(mix(seed ^ mix(part)))
    }

    /// Any number.
    pub const fn number(&mut self) -> u64 {
        self.series.number()
    }

    /// A number from 0 up to but not including `end`; 0 when that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// A fraction from 0 up to but not including 1.
    #[expect(clippy::cast_precision_loss, reason = "a float counts 53 bits exactly")]
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// A distance between independent arrivals, whose mean is `mean`.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.fraction()).ln() * mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_parts_differ() {
        let take = |mut chance: Chance| [chance.number(), chance.number(), chance.below(10)];
        assert_eq!(take(Chance::new(7)), take(Chance::new(7)));
        assert_ne!(take(Chance::of_part(7, 1)), take(Chance::of_part(7, 2)));
    }

    #[test]
    fn exponential_distances_have_their_mean() {
        let mut chance = Chance::new(1);
        let sum: f64 = (0..100_000).map(|_| chance.exponential(50.0)).sum();
        assert!((sum / 100_000.0 - 50.0).abs() < 1.0, "{}", sum / 100_000.0);
    }
}
