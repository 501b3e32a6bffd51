//! Numbers that look random and come again with the same seed.

use tidegate_random::SplitMix64;

/// A generator of 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A generator of its own for one purpose, so that one source of randomness does not disturb another.
    pub(crate) fn salted(seed: u64, salt: u64) -> Self {
        let mut random = Self::new(seed ^ salt.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// 0..`bound`; 0 when there is nothing to choose from.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    /// Whether something of this probability happens.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of the choices.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
