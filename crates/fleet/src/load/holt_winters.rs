//! A forecast of a series with a trend and a season.

use serde::{Deserialize, Serialize};

use super::{LoadError, factor};

/// The longest season: a week of observations every 15 seconds.
const SEASON_MAX: u32 = 40_320;

/// The smoothing factor of the forecast's error.
const ERROR_FACTOR: f64 = 0.05;

/// Smoothing factors of [`HoltWinters`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForecastFactors {
    /// Of the level, above 0 and up to 1.
    pub level: f64,
    /// Of the trend, above 0 and up to 1.
    pub trend: f64,
    /// Of the season, above 0 and up to 1.
    pub season: f64,
    /// How much of the trend is left after each observation, above 0 and up to 1.
    pub damping: f64,
}

impl Default for ForecastFactors {
    fn default() -> Self {
        Self { level: 0.3, trend: 0.1, season: 0.3, damping: 0.95 }
    }
}

/// Additive Holt-Winters with a damped trend.
///
/// With `m` observations to a season: `l(t) = a * (x - s(t-m)) + (1-a) * (l + d*b)`, `b(t) = t * (l(t) - l) + (1-t) *
/// d*b`, `s(t) = g * (x - l(t)) + (1-g) * s(t-m)`, and the forecast for `h` observations on is `l + (d + d^2 + ... +
/// d^h) * b + s(t+h-m)`. During the first season the forecast has no seasonal part; then it starts with each
/// observation's distance from the season's mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoltWinters {
    #[serde(skip)]
    factors: ForecastFactors,
    #[serde(skip)]
    length: u32,
    level: Option<f64>,
    trend: f64,
    /// The observed first season, then the seasonal component at each of its places.
    season: Vec<f64>,
    learned: bool,
    place: usize,
    /// How far forecasts for the next observation are off, as a smoothed mean.
    #[serde(default)]
    error: f64,
}

impl HoltWinters {
    /// A forecast with seasons of this number of observations; below 2 it has no seasons.
    ///
    /// # Errors
    /// When a factor is outside its range or a season is longer than 40,320 observations.
    pub fn new(factors: ForecastFactors, season: u32) -> Result<Self, LoadError> {
        factor("level's smoothing factor", factors.level)?;
        factor("trend's smoothing factor", factors.trend)?;
        factor("season's smoothing factor", factors.season)?;
        factor("trend's damping", factors.damping)?;
        if season > SEASON_MAX {
            return Err(LoadError::TooMany { name: "season", value: season, most: SEASON_MAX });
        }
        let length = if season < 2 { 0 } else { season };
        Ok(Self { factors, length, level: None, trend: 0.0, season: Vec::new(), learned: false, place: 0, error: 0.0 })
    }

    /// The same, with the observations of another one, such as that before a restart; `None` when its season has
    /// another length.
    #[must_use]
    pub fn recalling(&self, remembered: Self) -> Option<Self> {
        let known = remembered.season.len();
        let length = self.length as usize;
        let fits = if remembered.learned { known == length && length > 0 } else { known < length.max(1) };
        let place = if remembered.learned { remembered.place < length } else { remembered.place == known };
        (fits && place).then_some(Self { factors: self.factors, length: self.length, ..remembered })
    }

    /// Notes a number of missed observations: the season advances without them, and the trend fades.
    pub fn skip(&mut self, missed: u32) {
        self.trend *= self.factors.damping.powf(f64::from(missed));
        if self.length == 0 {
            return;
        }
        if self.learned {
            self.place = (self.place + missed as usize) % self.length as usize;
        } else if missed >= self.length {
            // A season that was observed in part is dropped.
            self.season.clear();
            self.place = 0;
        } else if let Some(level) = self.level {
            // Missed observations are taken to repeat the former season.
            for _ in 0..missed {
                self.learn(level, level);
            }
        }
    }

    /// Takes the next observation in.
    pub fn observe(&mut self, observed: f64) {
        let factors = self.factors;
        if let Some(forecast) = self.forecast(1) {
            self.error += ERROR_FACTOR * ((observed - forecast).abs() - self.error);
        }
        let seasonal = self.seasonal(0);
        let level = match self.level {
            None => observed,
            Some(before) => {
                let carried = factors.damping * self.trend;
                let level = factors.level * (observed - seasonal) + (1.0 - factors.level) * (before + carried);
                self.trend = factors.trend * (level - before) + (1.0 - factors.trend) * carried;
                level
            }
        };
        self.level = Some(level);
        self.learn(observed, level);
    }

    fn learn(&mut self, observed: f64, level: f64) {
        if self.length == 0 {
            return;
        }
        if self.learned {
            if let Some(value) = self.season.get_mut(self.place) {
                *value = self.factors.season * (observed - level) + (1.0 - self.factors.season) * *value;
            }
        } else {
            self.season.push(observed);
            if self.season.len() == self.length as usize {
                let mean = self.season.iter().sum::<f64>() / f64::from(self.length);
                self.season.iter_mut().for_each(|value| *value -= mean);
                // From here on the level is that of a whole season.
                self.level = Some(mean);
                self.trend = 0.0;
                self.learned = true;
            }
        }
        self.place = (self.place + 1) % self.length as usize;
    }

    /// The seasonal component `ahead` observations after the next one.
    fn seasonal(&self, ahead: usize) -> f64 {
        if !self.learned {
            return 0.0;
        }
        self.season.get((self.place + ahead) % self.length as usize).copied().unwrap_or(0.0)
    }

    /// The forecast for `ahead` observations on, 1 being the next one; `None` before the first observation.
    pub fn forecast(&self, ahead: usize) -> Option<f64> {
        let level = self.level?;
        let damping = self.factors.damping;
        let steps: f64 = std::iter::successors(Some(damping), |step| Some(step * damping)).take(ahead).sum();
        Some(level + steps * self.trend + self.seasonal(ahead.saturating_sub(1)))
    }

    /// How far a forecast for the next observation is off, as a smoothed mean.
    pub fn usual_error(&self) -> f64 {
        self.error
    }

    /// Whether a whole season has been seen.
    pub fn knows_the_season(&self) -> bool {
        self.learned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_and_trend_follow_by_hand() {
        let factors = ForecastFactors { level: 0.5, trend: 0.5, season: 0.5, damping: 1.0 };
        let mut series = HoltWinters::new(factors, 0).unwrap();
        assert_eq!(series.forecast(1), None);
        series.observe(10.0);
        series.observe(14.0);
        // l = 0.5 * 14 + 0.5 * 10 = 12; b = 0.5 * 2 = 1.
        assert_eq!(series.forecast(1), Some(13.0));
        assert_eq!(series.forecast(3), Some(15.0));
        series.observe(15.0);
        // l = 0.5 * 15 + 0.5 * 13 = 14; b = 0.5 * 2 + 0.5 * 1 = 1.5.
        assert_eq!(series.forecast(2), Some(17.0));
    }

    #[test]
    fn damping_wears_the_trend_out() {
        let factors = ForecastFactors { level: 0.5, trend: 0.5, season: 0.5, damping: 0.5 };
        let mut series = HoltWinters::new(factors, 0).unwrap();
        series.observe(10.0);
        series.observe(14.0);
        // b = 1; the next three steps add 0.5, 0.25 and 0.125.
        assert_eq!(series.forecast(3), Some(12.875));
    }

    #[test]
    fn a_season_that_was_seen_is_forecast() {
        let mut series = HoltWinters::new(ForecastFactors::default(), 4).unwrap();
        let season = [10.0, 20.0, 30.0, 20.0];
        for _ in 0..3 {
            for observed in season {
                series.observe(observed);
            }
        }
        assert!(series.knows_the_season());
        for (ahead, expected) in [(1, 10.0), (2, 20.0), (3, 30.0), (4, 20.0), (5, 10.0)] {
            let forecast = series.forecast(ahead).unwrap();
            assert!((forecast - expected).abs() < 1e-9, "{ahead}: {forecast}");
        }
    }

    #[test]
    fn factors_and_seasons_have_bounds() {
        assert!(HoltWinters::new(ForecastFactors { trend: 0.0, ..ForecastFactors::default() }, 0).is_err());
        assert!(HoltWinters::new(ForecastFactors::default(), SEASON_MAX + 1).is_err());
    }
}
