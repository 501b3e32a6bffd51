//! The band of loads without a change.

use serde::{Deserialize, Serialize};

use super::LoadError;

/// On which side of a band a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// Above the upper threshold.
    Above,
    /// Neither above nor below.
    Within,
    /// Below the lower threshold.
    Below,
}

/// A lower and an upper threshold, both fractions of the full value: 0 <= lower < upper <= 1 (BRK-42).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    lower: f64,
    upper: f64,
}

impl Thresholds {
    /// Two thresholds.
    ///
    /// # Errors
    /// When they leave no band within 0 and 1.
    pub fn new(lower: f64, upper: f64) -> Result<Self, LoadError> {
        if lower >= 0.0 && lower < upper && upper <= 1.0 {
            Ok(Self { lower, upper })
        } else {
            Err(LoadError::Thresholds { lower, upper })
        }
    }

    /// Below it, a level has too much.
    pub fn lower(self) -> f64 {
        self.lower
    }

    /// Above it, a level has too little.
    pub fn upper(self) -> f64 {
        self.upper
    }

    /// The side of a load. Both comparisons are strict: a load at a threshold is within.
    pub fn side(self, load: f64) -> Side {
        if load > self.upper {
            Side::Above
        } else if load < self.lower {
            Side::Below
        } else {
            Side::Within
        }
    }
}

impl Default for Thresholds {
    /// 30 % and 70 %, one of the study's pairs.
    fn default() -> Self {
        Self { lower: 0.3, upper: 0.7 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_at_a_threshold_is_within() {
        let band = Thresholds::default();
        assert_eq!(
            [0.3, 0.7, 0.29, 0.71].map(|load| band.side(load)),
            [Side::Within, Side::Within, Side::Below, Side::Above]
        );
    }

    #[test]
    fn a_band_has_an_inside() {
        assert!(Thresholds::new(0.5, 0.5).is_err());
        assert!(Thresholds::new(-0.1, 0.5).is_err());
        assert!(Thresholds::new(0.3, 1.1).is_err());
        assert!(Thresholds::new(f64::NAN, 0.5).is_err());
        assert!(Thresholds::new(0.0, 1.0).is_ok());
    }
}
