//! The length of the pong window follows the ping rate of the whole network (`CTX-51`, `CTX-52`), so that nodes of a
//! slow network do not count as lost.

use std::time::Duration;

/// By how much the window is stretched in an interval of ping rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateFactor {
    /// The interval ends with this rate, 0 to 1, itself included; it begins where the previous interval ends.
    pub up_to: f64,
    /// The window is multiplied by this; 1 keeps it.
    pub factor: f64,
}

impl std::str::FromStr for RateFactor {
    type Err = ReconfigError;

    /// Reads `RATE%: FACTOR`, such as `50%: 2`.
    fn from_str(text: &str) -> Result<Self, ReconfigError> {
        let read = || {
            let (rate, factor) = text.split_once(':')?;
            let percent: f64 = rate.trim().strip_suffix('%')?.trim().parse().ok()?;
            Some(Self { up_to: percent / 100.0, factor: factor.trim().parse().ok()? })
        };
        read().ok_or_else(|| ReconfigError::Text { text: text.to_owned() })
    }
}

impl std::fmt::Display for RateFactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}%: {}", self.up_to * 100.0, self.factor)
    }
}

/// How the window is reconfigured.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconfigSettings {
    /// Whether it is at all.
    pub enabled: bool,
    /// Ascending intervals; a rate above the last one keeps the window.
    pub factors: Vec<RateFactor>,
    /// The shortest window.
    pub floor: Duration,
    /// The longest window.
    pub ceiling: Duration,
    /// How much of a factor is applied in one round, above 0 and up to 1.
    pub damping: f64,
    /// How many rounds one after the other have to ask for a change of the same direction before it is made, at
    /// least 1.
    pub patience: u32,
}

impl Default for ReconfigSettings {
    fn default() -> Self {
        let factor = |up_to, factor| RateFactor { up_to, factor };
        Self {
            enabled: true,
            factors: vec![factor(0.5, 2.0), factor(0.8, 1.5), factor(0.95, 1.2), factor(0.99, 1.0), factor(1.0, 0.9)],
            floor: Duration::from_millis(200),
            ceiling: Duration::from_secs(30),
            damping: 0.5,
            patience: 2,
        }
    }
}

/// Why settings of the reconfiguration are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconfigError {
    /// A text that is no rate with its factor.
    #[error("`{text}` is no ping rate with its factor; write for example `50%: 2`")]
    Text {
        /// The text.
        text: String,
    },
    /// Rates that do not ascend within 0 to 1.
    #[error("the rates of the factors do not ascend from above 0 to 1; write each interval once, the smallest first")]
    Rates,
    /// A factor that is no factor.
    #[error("a factor of the ping window is not between 0.1 and 10; write 1 to keep the window")]
    Factor,
    /// A floor above the ceiling, or 0.
    #[error("the shortest ping window is 0 or longer than the longest one; choose a floor below the ceiling")]
    Bounds,
    /// A damping or a patience out of range.
    #[error("the damping is not above 0 and up to 1, or the patience is 0")]
    Damping,
}

/// Chooses the window for the next rounds.
#[derive(Debug)]
pub struct PingReconfig {
    settings: ReconfigSettings,
    /// How many rounds asked for a longer (positive) or a shorter (negative) window in a row.
    streak: i32,
}

impl PingReconfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// When one is out of its range.
    pub fn new(settings: ReconfigSettings) -> Result<Self, ReconfigError> {
        let mut below = 0.0;
        for factor in &settings.factors {
            if !(factor.up_to > below && factor.up_to <= 1.0) {
                return Err(ReconfigError::Rates);
            }
            below = factor.up_to;
        }
        if settings.factors.iter().any(|factor| !(0.1..=10.0).contains(&factor.factor)) {
            return Err(ReconfigError::Factor);
        }
        if settings.floor.is_zero() || settings.floor > settings.ceiling {
            return Err(ReconfigError::Bounds);
        }
        if !(settings.damping > 0.0 && settings.damping <= 1.0) || settings.patience == 0 {
            return Err(ReconfigError::Damping);
        }
        Ok(Self { settings, streak: 0 })
    }

    /// The window after a round with this ping rate of the whole network; `None` when no node was pinged.
    pub fn next(&mut self, window: Duration, rate: Option<f64>) -> Duration {
        let Some(rate) = rate.filter(|_| self.settings.enabled) else { return window };
        let interval = self.settings.factors.iter().find(|factor| rate <= factor.up_to);
        let wish = interval.map_or(1.0, |factor| factor.factor);
        self.streak = match wish.total_cmp(&1.0) {
            std::cmp::Ordering::Greater => self.streak.max(0).saturating_add(1),
            std::cmp::Ordering::Less => self.streak.min(0).saturating_sub(1),
            std::cmp::Ordering::Equal => 0,
        };
        if self.streak.unsigned_abs() < self.settings.patience {
            return window;
        }
        let damped = 1.0 + (wish - 1.0) * self.settings.damping;
        let (floor, ceiling) = (self.settings.floor.as_secs_f64(), self.settings.ceiling.as_secs_f64());
        let seconds = (window.as_secs_f64() * damped).clamp(floor, ceiling);
        Duration::try_from_secs_f64(seconds).unwrap_or(self.settings.ceiling)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn reconfig(change: impl FnOnce(&mut ReconfigSettings)) -> Result<PingReconfig, ReconfigError> {
        let mut settings = ReconfigSettings { patience: 1, damping: 1.0, ..ReconfigSettings::default() };
        change(&mut settings);
        PingReconfig::new(settings)
    }

    #[test]
    fn factors_are_read_as_they_are_shown() {
        for factor in ReconfigSettings::default().factors {
            assert_eq!(factor.to_string().parse(), Ok(factor));
        }
        assert_eq!(" 50 % :2".parse(), Ok(RateFactor { up_to: 0.5, factor: 2.0 }));
        for text in ["", "50", "50: 2", "50%", "%: 2", "50%: x", "50%: 2: 3"] {
            assert_eq!(text.parse::<RateFactor>(), Err(ReconfigError::Text { text: text.to_owned() }));
        }
        let unreadable = RateFactor { up_to: f64::NAN, factor: 1.0 };
        assert_eq!(reconfig(|settings| settings.factors = vec![unreadable]).unwrap_err(), ReconfigError::Rates);
    }

    #[test]
    fn each_interval_has_its_factor() {
        let mut reconfig = reconfig(|_| {}).unwrap();
        let mut next = |rate| reconfig.next(SECOND, Some(rate)).as_millis();
        assert_eq!(
            [next(0.3), next(0.5), next(0.7), next(0.95), next(0.97), next(1.0)],
            [2000, 2000, 1500, 1200, 1000, 900]
        );
    }

    #[test]
    fn it_can_be_disabled_and_never_waits() {
        assert_eq!(reconfig(|settings| settings.enabled = false).unwrap().next(SECOND, Some(0.0)), SECOND);
        assert_eq!(reconfig(|_| {}).unwrap().next(SECOND, None), SECOND);
    }

    #[test]
    fn one_bad_round_among_good_ones_changes_nothing() {
        let mut reconfig = reconfig(|settings| settings.patience = 2).unwrap();
        for rate in [0.3, 0.97, 0.3, 1.0, 0.3] {
            assert_eq!(reconfig.next(SECOND, Some(rate)), SECOND);
        }
        assert!(reconfig.next(SECOND, Some(0.3)) > SECOND);
    }

    #[test]
    fn invalid_settings_are_refused() {
        let rates = |settings: &mut ReconfigSettings| settings.factors.swap(0, 1);
        assert_eq!(reconfig(rates).unwrap_err(), ReconfigError::Rates);
        assert_eq!(reconfig(|settings| settings.factors[0].factor = 0.0).unwrap_err(), ReconfigError::Factor);
        assert_eq!(reconfig(|settings| settings.floor = Duration::ZERO).unwrap_err(), ReconfigError::Bounds);
        assert_eq!(reconfig(|settings| settings.floor = Duration::from_secs(31)).unwrap_err(), ReconfigError::Bounds);
        assert_eq!(reconfig(|settings| settings.damping = 0.0).unwrap_err(), ReconfigError::Damping);
        assert_eq!(reconfig(|settings| settings.factors[0].up_to = f64::NAN).unwrap_err(), ReconfigError::Rates);
    }

    proptest! {
        #[test]
        fn no_row_of_rates_leads_out_of_floor_and_ceiling(rates in proptest::collection::vec(0.0_f64..=1.0, 0..200)) {
            let settings = ReconfigSettings::default();
            let (floor, ceiling) = (settings.floor, settings.ceiling);
            let mut reconfig = PingReconfig::new(settings).unwrap();
            let mut window = SECOND;
            for rate in rates {
                window = reconfig.next(window, Some(rate));
                prop_assert!((floor..=ceiling).contains(&window));
            }
        }
    }
}
