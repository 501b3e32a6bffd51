//! Distributions of times.

use hdrhistogram::Histogram as Hdr;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The smallest difference that is seen, in nanoseconds.
const FINEST_NS: u64 = 100;
/// Longer times count as this, in nanoseconds: two hours.
const LONGEST_NS: u64 = 7_200_000_000_000;
/// Every value is right to a thousandth.
const DIGITS: u8 = 3;

/// A distribution of times in nanoseconds, right to a thousandth at every value, or to 0.1 µs. As data it is a list of
/// pairs: value and count.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    counts: Hdr<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    ///
    /// # Panics
    /// Never: the bounds are constants within the bounds of the library.
    #[expect(clippy::expect_used, reason = "the bounds are constants, and a test makes one")]
    pub fn new() -> Self {
        let counts = Hdr::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS).expect("bounds are within the library's");
        Self { counts }
    }

    /// Takes in a time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts.saturating_record(ns);
    }

    /// Adds the values of another one.
    pub fn add(&mut self, other: &Self) {
        for bucket in other.counts.iter_recorded() {
            self.counts.saturating_record_n(bucket.value_iterated_to(), bucket.count_at_value());
        }
    }

    /// The times taken in.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The time that a share of all does not exceed (`0.99` for p99), in nanoseconds; 0 without values.
    pub fn at(&self, share: f64) -> u64 {
        self.counts.value_at_quantile(share)
    }

    /// The longest time in nanoseconds; 0 without values.
    pub fn max(&self) -> u64 {
        self.counts.max()
    }

    /// The shortest time in nanoseconds; 0 without values.
    pub fn min(&self) -> u64 {
        self.counts.min()
    }

    /// The mean in nanoseconds; 0 without values.
    pub fn mean(&self) -> f64 {
        self.counts.mean()
    }

    /// The standard deviation in nanoseconds; 0 without values.
    pub fn deviation(&self) -> f64 {
        self.counts.stdev()
    }

    /// How many are longer than a time in nanoseconds, to the histogram's resolution.
    pub fn above(&self, ns: u64) -> u64 {
        self.pairs().filter(|(value, _)| *value > ns).map(|(_, count)| count).sum()
    }

    /// The values that occur, in nanoseconds, and how often each does.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.reset();
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.pairs())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = Vec::<(u64, u64)>::deserialize(deserializer)?;
        let mut histogram = Self::new();
        for (value, count) in pairs {
            histogram.counts.record_n(value, count).map_err(D::Error::custom)?;
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_lost_on_the_way_to_another_process(times in prop::collection::vec(0..10_000_000_000_000_u64, 0..50)) {
            let mut histogram = Histogram::new();
            for time in &times {
                histogram.record(*time);
            }
            let text = serde_json::to_string(&histogram).unwrap();
            let back: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.count(), times.len() as u64);
            let same: Vec<_> = back.pairs().collect();
            prop_assert_eq!(same, histogram.pairs().collect::<Vec<_>>());
            let mut doubled = back.clone();
            doubled.add(&histogram);
            prop_assert_eq!(doubled.count(), 2 * histogram.count());
            prop_assert_eq!(doubled.at(0.5), histogram.at(0.5));
        }
    }

    #[test]
    fn a_value_is_right_to_a_thousandth() {
        let mut histogram = Histogram::new();
        for ns in [12_345_678, 1_000, 50_000_000_000] {
            histogram.clear();
            histogram.record(ns);
            assert!(histogram.at(0.5).abs_diff(ns) <= (ns / 1000).max(FINEST_NS), "{} for {ns}", histogram.at(0.5));
        }
    }
}
