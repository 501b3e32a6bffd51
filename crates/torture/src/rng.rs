//! Random numbers that a seed repeats.

use std::ops::Range;

use tidegate_random::SplitMix64;

/// Chooses moments and sizes, the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    /// A generator whose numbers follow from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A generator for another purpose, so that one more draw here does not change the draws there.
    pub(crate) fn fork(&mut self, purpose: u64) -> Self {
        Self::new(self.next() ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// A number of the range; its start when the range is empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.next() % width
    }

    /// An index below `len`; 0 when there is nothing to choose from.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.within(0..len as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_ranges_hold() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..64).map(|_| rng.within(3..9)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(1).iter().all(|number| (3..9).contains(number)));
    }
}
