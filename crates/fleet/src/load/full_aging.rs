//! Simple exponential smoothing over all observations (BRK-37).

use serde::{Deserialize, Serialize};

use super::{Evaluated, Evaluator, LoadError, factor, observations};

/// `l(o) = (1 - a) * l(o-1) + a * c(o)`, `l(0) = 0`; the study's factor `a` is 0.5. The load does not count before
/// `view` observations.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FullAging {
    #[serde(skip)]
    factor: f64,
    #[serde(skip)]
    view: u32,
    load: f64,
    seen: u32,
}

impl FullAging {
    /// Smoothing with a factor above 0 and up to 1, and the number of observations from which the load counts.
    ///
    /// # Errors
    /// When the factor is outside its range or `view` is 0.
    pub fn new(smoothing: f64, view: u32) -> Result<Self, LoadError> {
        let factor = factor("smoothing factor", smoothing)?;
        Ok(Self { factor, view: observations("view", view)?, load: 0.0, seen: 0 })
    }

    /// The same, with the observations of another one, such as that before a restart.
    #[must_use]
    pub fn recalling(&self, remembered: &Self) -> Self {
        Self { factor: self.factor, view: self.view, ..*remembered }
    }
}

impl Evaluator for FullAging {
    fn observe(&mut self, observed: f64) -> Evaluated {
        self.load = (1.0 - self.factor) * self.load + self.factor * observed;
        self.seen = self.seen.saturating_add(1);
        match self.view.saturating_sub(self.seen) {
            0 => Evaluated::Load(self.load),
            remaining => Evaluated::WarmingUp { load: self.load, remaining },
        }
    }

    fn describe(&self) -> String {
        format!("full aging with factor {}", self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(factor: f64, observed: &[f64]) -> Vec<f64> {
        let mut aging = FullAging::new(factor, 1).unwrap();
        observed.iter().map(|observed| aging.observe(*observed).value()).collect()
    }

    #[test]
    fn from_idle_to_full_crosses_70_percent_at_2_and_90_at_4() {
        let loads = loads(0.5, &[1.0; 5]);
        assert_eq!(loads, [0.5, 0.75, 0.875, 0.9375, 0.96875]);
        assert_eq!(loads.iter().position(|load| *load > 0.7), Some(1));
        assert_eq!(loads.iter().position(|load| *load > 0.9), Some(3));
    }

    #[test]
    fn one_full_sample_trips_70_percent_when_the_base_is_above_40() {
        // On a settled base b, one full sample gives (b + 1) / 2.
        for (base, trips) in [(0.38, false), (0.42, true)] {
            let mut series = vec![base; 60];
            series.push(1.0);
            let load = *loads(0.5, &series).last().unwrap();
            assert!((load - f64::midpoint(base, 1.0)).abs() < 1e-9);
            assert_eq!(load > 0.7, trips, "base {base}");
        }
    }

    #[test]
    fn a_load_counts_from_the_view_on() {
        let mut aging = FullAging::new(0.5, 3).unwrap();
        assert_eq!(aging.observe(1.0), Evaluated::WarmingUp { load: 0.5, remaining: 2 });
        assert_eq!(aging.observe(1.0), Evaluated::WarmingUp { load: 0.75, remaining: 1 });
        assert_eq!(aging.observe(1.0), Evaluated::Load(0.875));
    }

    #[test]
    fn factors_outside_their_range_are_refused() {
        for factor in [0.0, -0.5, 1.1, f64::NAN] {
            assert!(FullAging::new(factor, 1).is_err(), "{factor}");
        }
        assert_eq!(FullAging::new(0.5, 0).unwrap_err(), LoadError::NoObservations { name: "view" });
    }
}
