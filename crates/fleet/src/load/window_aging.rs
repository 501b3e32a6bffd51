//! Exponential smoothing over the newest observations.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Evaluated, Evaluator, LoadError, factor};

/// The largest window: an hour of observations every second.
const WINDOW_MAX: u32 = 3600;

/// `l(o) = sum over i in 0..w of a * (1 - a)^i * c(o-i)`: with `a` = 0.5 the weights are 1/2, 1/4, 1/8 and so on.
///
/// They sum to `1 - (1 - a)^w`, so this load reads low by that factor: 0.875 for a window of 3, 0.969 for one of 5.
/// Before there are `w` observations the load is their plain mean, which counts from the third one on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowAging {
    #[serde(skip)]
    factor: f64,
    #[serde(skip)]
    window: u32,
    newest_first: VecDeque<f64>,
}

impl WindowAging {
    /// Smoothing with a factor above 0 and up to 1, over a window of 1 to 3600 observations.
    ///
    /// # Errors
    /// When one is outside its range.
    pub fn new(smoothing: f64, window: u32) -> Result<Self, LoadError> {
        let factor = factor("smoothing factor", smoothing)?;
        if window == 0 {
            return Err(LoadError::NoObservations { name: "window" });
        }
        if window > WINDOW_MAX {
            return Err(LoadError::TooMany { name: "window", value: window, most: WINDOW_MAX });
        }
        Ok(Self { factor, window, newest_first: VecDeque::with_capacity(window as usize) })
    }

    /// The same, with the observations of another one, such as that before a restart.
    #[must_use]
    pub fn recalling(&self, remembered: Self) -> Self {
        let mut newest_first = remembered.newest_first;
        newest_first.truncate(self.window as usize);
        Self { factor: self.factor, window: self.window, newest_first }
    }

    fn weighted(&self) -> f64 {
        let weights = std::iter::successors(Some(self.factor), |weight| Some(weight * (1.0 - self.factor)));
        self.newest_first.iter().zip(weights).map(|(observed, weight)| observed * weight).sum()
    }
}

impl Evaluator for WindowAging {
    fn observe(&mut self, observed: f64) -> Evaluated {
        self.newest_first.truncate(self.window.saturating_sub(1) as usize);
        self.newest_first.push_front(observed);
        let seen = u32::try_from(self.newest_first.len()).unwrap_or(u32::MAX);
        if seen >= self.window {
            return Evaluated::Load(self.weighted());
        }
        match 3_u32.saturating_sub(seen) {
            0 => Evaluated::Load(self.newest_first.iter().sum::<f64>() / f64::from(seen)),
            remaining => Evaluated::WarmingUp { load: 0.0, remaining },
        }
    }

    fn describe(&self) -> String {
        format!("window aging with factor {} over {} observations", self.factor, self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_observation_weighs_half_and_the_window_reads_low() {
        let mut aging = WindowAging::new(0.5, 3).unwrap();
        let loads: Vec<Evaluated> = [0.2, 0.4, 0.8, 0.8, 0.8].into_iter().map(|load| aging.observe(load)).collect();
        assert_eq!(loads[0], Evaluated::WarmingUp { load: 0.0, remaining: 2 });
        assert_eq!(loads[1], Evaluated::WarmingUp { load: 0.0, remaining: 1 });
        // 0.8 / 2 + 0.4 / 4 + 0.2 / 8.
        assert!((loads[2].value() - 0.525).abs() < 1e-12);
        // All 0.8: 0.8 * 0.875.
        assert!((loads[4].value() - 0.7).abs() < 1e-12);
    }

    #[test]
    fn a_partial_window_counts_from_the_third_observation() {
        let mut aging = WindowAging::new(0.5, 5).unwrap();
        aging.observe(0.1);
        aging.observe(0.2);
        let Evaluated::Load(mean) = aging.observe(0.6) else { panic!("still warming up") };
        assert!((mean - 0.3).abs() < 1e-12);
        aging.observe(0.7);
        let full = aging.observe(0.8).value();
        assert!((full - (0.4 + 0.175 + 0.075 + 0.0125 + 0.003_125)).abs() < 1e-12, "{full}");
    }

    #[test]
    fn a_window_has_bounds() {
        assert!(WindowAging::new(0.5, 0).is_err());
        assert!(WindowAging::new(0.5, WINDOW_MAX + 1).is_err());
        assert_eq!(WindowAging::new(0.5, 1).unwrap().observe(0.8), Evaluated::Load(0.4));
    }
}
