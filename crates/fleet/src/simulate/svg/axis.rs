//! Axes with round numbers.

/// Steps of hours that people read.
const HOURS: [f64; 6] = [1.0, 2.0, 3.0, 6.0, 12.0, 24.0];
/// About so many ticks on an axis.
const TICKS: f64 = 8.0;

/// A range and the step between its ticks.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    step: f64,
}

/// The unit for a duration of so many seconds, and its seconds.
pub(super) fn time_unit(duration: f64) -> (&'static str, f64) {
    match duration {
        short if short <= 600.0 => ("s", 1.0),
        hours if hours <= 4.0 * 3600.0 => ("min", 60.0),
        days if days <= 4.0 * 86_400.0 => ("h", 3600.0),
        _ => ("days", 86_400.0),
    }
}

/// 1, 2 or 5 times a power of ten, for about so many steps.
fn round_step(range: f64, steps: f64) -> f64 {
    let rough = range / steps;
    let power = 10_f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough);
    digit.map_or(10.0 * power, |digit| digit * power)
}

impl Axis {
    /// From one time to a later one.
    pub(super) fn between(from: f64, to: f64) -> Self {
        let range = to - from;
        let hours = HOURS.into_iter().find(|step| range / step <= TICKS + 1.0);
        let step = match hours {
            Some(step) if (6.0..=96.0).contains(&range) => step,
            _ => round_step(range, TICKS),
        };
        Self { from, to, step }
    }

    /// From 0 to a count, in whole numbers.
    pub(super) fn counts(most: f64) -> Self {
        let step = round_step(most, 4.0).max(1.0);
        Self { from: 0.0, to: (most / step).ceil() * step, step }
    }

    /// Where a value lies between the ends.
    pub(super) fn fraction(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// The ticks with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let first = (self.from / self.step).ceil();
        let count = (0_u32..64).map(f64::from).map(|place| (first + place) * self.step);
        let within = count.take_while(|value| *value <= self.to + self.step * 1e-9);
        within.map(|value| (value, format!("{}", (value * 1000.0).round() / 1000.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        assert_eq!(labels(&Axis::counts(11.0)), ["0", "5", "10", "15"]);
        assert_eq!(labels(&Axis::counts(1.0)), ["0", "1"]);
        assert_eq!(labels(&Axis::between(0.0, 90.0)), ["0", "12", "24", "36", "48", "60", "72", "84"]);
        assert_eq!(labels(&Axis::between(0.0, 5.0)), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(&Axis::between(0.0, 500.0)), ["0", "100", "200", "300", "400", "500"]);
    }

    #[test]
    fn fractions_stay_within() {
        let axis = Axis::counts(10.0);
        assert!((axis.fraction(5.0) - 0.5).abs() < 1e-12);
        assert!((axis.fraction(50.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_unit_suits_the_duration() {
        assert_eq!([60.0, 3600.0, 90_000.0, 1e6].map(|duration| time_unit(duration).0), ["s", "min", "h", "days"]);
    }
}
