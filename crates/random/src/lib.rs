//! Numbers that follow from a seed: the one generator of simulations, load and tests. It is not for secrets.
//!
//! The algorithm is `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014). It stays as it is: stored seeds of failed
//! simulations and of measured loads have to give the same numbers in each version.

/// The distance between two states of the generator: 2^64 divided by the golden ratio, odd.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads the bits of a number over the whole of it: the first number of the series with this seed.
pub const fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A series of numbers that follows from a seed. A copy continues from the same place.
#[derive(Clone, Debug, Default)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The series of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn number(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    /// A number from 0 up to but not including `end`; 0 when that is 0. The smaller numbers are more likely by at most
    /// `end` in 2^64.
    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.number() % end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_that_of_the_published_algorithm() {
        // The values of the reference implementation (prng.di.unimi.it/splitmix64.c) for the seed 1234567.
        let mut series = SplitMix64::new(1_234_567);
        let numbers = [(); 5].map(|()| series.number());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn a_bound_holds_and_zero_gives_zero() {
        let mut series = SplitMix64::new(7);
        assert!((0..1_000).all(|_| series.below(6) < 6));
        assert_eq!(series.below(0), 0);
    }
}
