//! Numbers that look random and are the same in every run.

use tidegate_random::SplitMix64;

/// The series of a seed.
#[derive(Clone, Debug)]
pub(super) struct Random {
    series: SplitMix64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { series: SplitMix64::new(seed) }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.series.number()
    }

    /// From 0 up to, but not including, 1.
    pub(super) fn fraction(&mut self) -> f64 {
        let high = u32::try_from(self.next() >> 32).unwrap_or(0);
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }

    /// Around 0 with a deviation of 1: the sum of twelve fractions, less 6.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.fraction()).sum::<f64>() - 6.0
    }
}
