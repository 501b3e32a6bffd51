//! Thresholds that follow the load, so that they need not be configured.

use serde::{Deserialize, Serialize};

use super::{Side, Thresholds};

/// Observations before thresholds move.
const SETTLING: u32 = 5;
/// How far a threshold moves for each unit of the load's velocity, against it.
const STEP: f64 = -1.25;

/// Thresholds moved by the load's smoothed velocity, `v(o) = 0.5 * v(o-1) + 0.5 * (c(o) - c(o-1))`.
///
/// After five observations, a rising load moves the upper threshold and a falling load the lower one, each by
/// `-1.25 * v`, kept in 0 to 1: the faster it rises, the earlier it is too much. After resources have arrived,
/// `upper = l + |1 - l| / 2` and `lower = 0`; after they have left, `lower = l_before - |l_before - l_after| / 2` and
/// `upper = 1`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveThresholds {
    lower: f64,
    upper: f64,
    velocity: f64,
    previous: Option<f64>,
    seen: u32,
}

impl LiveThresholds {
    /// Starts with these thresholds.
    pub fn new(start: Thresholds) -> Self {
        Self { lower: start.lower(), upper: start.upper(), velocity: 0.0, previous: None, seen: 0 }
    }

    /// Moves the thresholds with the next observation `c(o)`.
    pub fn observe(&mut self, observed: f64) {
        if let Some(previous) = self.previous.replace(observed) {
            self.velocity = 0.5 * self.velocity + 0.5 * (observed - previous);
        }
        self.seen = self.seen.saturating_add(1);
        if self.seen <= SETTLING {
            return;
        }
        if self.velocity > 0.0 {
            self.upper = (self.upper + STEP * self.velocity).clamp(0.0, 1.0);
        } else if self.velocity < 0.0 {
            self.lower = (self.lower + STEP * self.velocity).clamp(0.0, 1.0);
        }
    }

    /// Resources have arrived, and the load is now `load`.
    pub fn arrived(&mut self, load: f64) {
        self.upper = (load + (1.0 - load).abs() / 2.0).clamp(0.0, 1.0);
        self.lower = 0.0;
    }

    /// Resources have left, which changed the load from `before` to `after`.
    pub fn left(&mut self, before: f64, after: f64) {
        self.lower = (before - (before - after).abs() / 2.0).clamp(0.0, 1.0);
        self.upper = 1.0;
    }

    /// The lower threshold now.
    pub fn lower(&self) -> f64 {
        self.lower
    }

    /// The upper threshold now.
    pub fn upper(&self) -> f64 {
        self.upper
    }

    /// The side of a load now. Strict, and above wins should the thresholds have crossed.
    pub fn side(&self, load: f64) -> Side {
        if load > self.upper {
            Side::Above
        } else if load < self.lower {
            Side::Below
        } else {
            Side::Within
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-12, "{left} is not {right}");
    }

    #[test]
    fn after_five_observations_a_rise_lowers_the_upper_threshold() {
        let mut live = LiveThresholds::new(Thresholds::default());
        for observed in [0.5; 5] {
            live.observe(observed);
        }
        close(live.upper(), 0.7);
        live.observe(0.7);
        // v = 0.5 * 0 + 0.5 * 0.2 = 0.1, and the threshold moves by -0.125.
        close(live.upper(), 0.575);
        close(live.lower(), 0.3);
        live.observe(0.7);
        // v = 0.05, and the threshold moves by -0.0625.
        close(live.upper(), 0.5125);
    }

    #[test]
    fn a_fall_raises_the_lower_threshold() {
        let mut live = LiveThresholds::new(Thresholds::default());
        for observed in [0.5; 5] {
            live.observe(observed);
        }
        live.observe(0.3);
        close(live.lower(), 0.425);
        assert_eq!(live.side(0.4), Side::Below);
    }

    #[test]
    fn arriving_and_leaving_resources_open_the_band() {
        let mut live = LiveThresholds::new(Thresholds::default());
        live.arrived(0.6);
        close(live.upper(), 0.8);
        close(live.lower(), 0.0);
        live.left(0.2, 0.4);
        close(live.lower(), 0.1);
        close(live.upper(), 1.0);
    }
}
