//! Whether a quantity drifts: a trend that is distinguished from noise, without an assumption about its distribution.

use serde::{Deserialize, Serialize};

use crate::results::statistics::median;

/// Windows that a series is divided into; the median of each is one point. Neighbouring looks depend on each other,
/// windows hardly.
const WINDOWS: usize = 40;
/// The share of a series at its begin that is left out: caches fill, heaps find their size.
const SETTLING: f64 = 0.1;
/// Minimum number of points of a judgement.
const LEAST_POINTS: usize = 8;
/// The chance that noise alone shows such a trend is below one in a thousand beyond this many standard deviations.
const SIGNIFICANT: f64 = 3.29;
/// A trend that changes less than this share of the level over the whole run does not matter.
const MATTERS: f64 = 0.03;

/// A trend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// The level at the begin of the trend.
    pub from: f64,
    /// The level at its end.
    pub to: f64,
    /// The slope, in units an hour: the median of the slopes between all pairs of points (Theil and Sen).
    pub per_hour: f64,
    /// How many standard deviations the trend is away from none (Mann and Kendall); positive when it grows.
    pub deviations: f64,
}

/// Its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trend {
    /// It grows.
    Grows,
    /// It shrinks.
    Shrinks,
    /// There is no trend, or none that matters.
    Steady,
}

impl Drift {
    /// The trend of values at times in seconds; `None` when there are too few.
    pub fn of(at_s: &[f64], values: &[f64]) -> Option<Self> {
        let points = points(at_s, values);
        if points.len() < LEAST_POINTS {
            return None;
        }
        let (mut slopes, mut rises) = (Vec::new(), 0.0_f64);
        for (place, (at, value)) in points.iter().enumerate() {
            for (later, other) in &points[place + 1..] {
                slopes.push((other - value) / (later - at));
                rises += if other > value { 1.0 } else { 0.0 } - if other < value { 1.0 } else { 0.0 };
            }
        }
        let slope = median(&slopes)?;
        // The line with this slope that has as many points above as below.
        let offsets: Vec<f64> = points.iter().map(|(at, value)| value - slope * at).collect();
        let level = median(&offsets)?;
        let (first, last) = (points.first()?.0, points.last()?.0);
        #[expect(clippy::cast_precision_loss, reason = "a few dozen points")]
        let count = points.len() as f64;
        let variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
        let corrected = (rises.abs() - 1.0).max(0.0) * rises.signum();
        Some(Self {
            from: level + slope * first,
            to: level + slope * last,
            per_hour: slope * 3600.0,
            deviations: corrected / variance.sqrt(),
        })
    }

    /// Whether it is a trend that matters.
    pub fn trend(&self) -> Trend {
        let change = self.to - self.from;
        if self.deviations.abs() < SIGNIFICANT || change.abs() < MATTERS * self.from.abs() {
            Trend::Steady
        } else if change > 0.0 {
            Trend::Grows
        } else {
            Trend::Shrinks
        }
    }
}

/// The medians of equal windows, without the begin.
fn points(at_s: &[f64], values: &[f64]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (at_s.first(), at_s.last()) else { return Vec::new() };
    let begin = first + (last - first) * SETTLING;
    #[expect(clippy::cast_precision_loss, reason = "a few dozen windows")]
    let width = (last - begin) / WINDOWS as f64;
    if width <= 0.0 {
        return Vec::new();
    }
    let mut windows = vec![(Vec::new(), Vec::new()); WINDOWS];
    for (at, value) in at_s.iter().zip(values).filter(|(at, value)| **at >= begin && value.is_finite()) {
        #[expect(clippy::cast_sign_loss, reason = "not before the begin")]
        let window = (((at - begin) / width) as usize).min(WINDOWS - 1);
        windows[window].0.push(*at);
        windows[window].1.push(*value);
    }
    windows.iter().filter_map(|(at, values)| Some((median(at)?, median(values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::chance::Chance;

    /// Four hours, a look each ten seconds: a level, a slope in units an hour, and noise of this amplitude in units.
    fn series(level: f64, per_hour: f64, noise: f64, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut chance = Chance::of_part(seed, 0);
        let at: Vec<f64> = (0..1440).map(|look| f64::from(look) * 10.0).collect();
        let values = at.iter().map(|at| level + per_hour * at / 3600.0 + (chance.fraction() - 0.5) * 2.0 * noise);
        (at.clone(), values.collect())
    }

    #[test]
    fn a_leak_is_found_under_noise_that_is_larger() {
        for seed in 0..20 {
            let (at, values) = series(100.0, 4.0, 20.0, seed);
            let drift = Drift::of(&at, &values).unwrap();
            assert!((drift.per_hour - 4.0).abs() < 2.2, "{drift:?}");
            let (at, values) = series(100.0, 6.0, 8.0, seed);
            let drift = Drift::of(&at, &values).unwrap();
            assert!((drift.per_hour - 6.0).abs() < 0.9, "{drift:?}");
            assert_eq!(drift.trend(), Trend::Grows, "{drift:?}");
            assert!((drift.to - drift.from - 6.0 * 3.24).abs() < 3.5, "{drift:?}");
        }
    }

    #[test]
    fn noise_alone_is_no_drift() {
        let steady = (0..200).filter(|seed| {
            let (at, values) = series(100.0, 0.0, 20.0, *seed);
            Drift::of(&at, &values).unwrap().trend() == Trend::Steady
        });
        assert!(steady.count() >= 199);
    }

    #[test]
    fn settling_and_single_outliers_are_no_drift() {
        let (at, mut values) = series(100.0, 0.0, 1.0, 3);
        for value in values.iter_mut().take(140) {
            *value = 10.0;
        }
        for value in values.iter_mut().skip(200).step_by(97) {
            *value = 5_000.0;
        }
        assert_eq!(Drift::of(&at, &values).unwrap().trend(), Trend::Steady);
    }

    #[test]
    fn a_falling_series_shrinks_and_a_flat_one_is_steady() {
        let (at, values) = series(100.0, -8.0, 1.0, 4);
        assert_eq!(Drift::of(&at, &values).unwrap().trend(), Trend::Shrinks);
        let (at, values) = series(100.0, 0.2, 0.1, 5);
        let slight = Drift::of(&at, &values).unwrap();
        assert!(slight.deviations > SIGNIFICANT, "a trend there is: {slight:?}");
        assert_eq!(slight.trend(), Trend::Steady, "but less than 3 %");
    }

    /// Samples, a second apart, of a level with a slope in units a second and noise of an amplitude in units.
    fn few(looks: u32, level: f64, slope: f64, noise: f64, seed: u64) -> Option<Drift> {
        let mut chance = Chance::of_part(seed, 1);
        let at: Vec<f64> = (0..looks).map(f64::from).collect();
        let values: Vec<f64> =
            at.iter().map(|at| level + slope * at + (chance.fraction() - 0.5) * 2.0 * noise).collect();
        Drift::of(&at, &values)
    }

    #[test]
    fn a_clear_trend_shows_in_as_few_looks_as_can_show_one() {
        let drift = few(10, 100.0, 5.0, 0.0, 0).unwrap();
        assert_eq!(drift.trend(), Trend::Grows, "{drift:?}");
        assert!((drift.per_hour - 18_000.0).abs() < 1e-6 && (drift.from - 105.0).abs() < 1e-9, "{drift:?}");
        assert_eq!(few(8, 100.0, 5.0, 0.0, 0), None, "seven points without the first tenth");
    }

    #[test]
    fn few_looks_full_of_noise_are_no_drift() {
        for looks in [10, 12, 20, 44, 50] {
            let steady = (0..400).filter(|seed| few(looks, 100.0, 0.0, 30.0, *seed).unwrap().trend() == Trend::Steady);
            assert!(steady.count() >= 398, "{looks}");
        }
    }

    #[test]
    fn looks_that_are_missing_for_an_hour_change_no_slope() {
        let (at, values) = series(100.0, 6.0, 1.0, 7);
        let there = at.iter().zip(&values).filter(|(at, _)| !(5_000.0..8_600.0).contains(*at));
        let (at, values): (Vec<f64>, Vec<f64>) = there.unzip();
        let drift = Drift::of(&at, &values).unwrap();
        assert!((drift.per_hour - 6.0).abs() < 0.2, "{drift:?}");
    }

    #[test]
    fn sparse_samples_show_the_same_trend_as_dense_ones() {
        let (at, values) = series(100.0, 6.0, 4.0, 8);
        let thin = |every: usize| {
            let (at, values): (Vec<f64>, Vec<f64>) = at.iter().zip(&values).step_by(every).unzip();
            Drift::of(&at, &values).unwrap()
        };
        for every in [4, 36, 100] {
            let drift = thin(every);
            assert!((drift.per_hour - thin(1).per_hour).abs() < 1.5, "{every}: {drift:?}");
            assert_eq!(drift.trend(), Trend::Grows, "{every}: {drift:?}");
        }
    }

    #[test]
    fn counts_that_stay_and_a_series_of_nothing_are_steady() {
        for level in [0.0, 9.0] {
            let drift = few(300, level, 0.0, 0.0, 0).unwrap();
            assert_eq!((drift.trend(), drift.from), (Trend::Steady, level), "{drift:?}");
        }
    }

    #[test]
    fn of_few_looks_nothing_is_said() {
        assert_eq!(Drift::of(&[0.0, 1.0, 2.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(Drift::of(&[], &[]), None);
    }
}
