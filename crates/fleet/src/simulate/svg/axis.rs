//! Axes with round numbers.

/// Steps of minutes that people read.
const MINUTES: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0];
/// Steps of hours that people read.
const HOURS: [f64; 6] = [1.0, 2.0, 3.0, 6.0, 12.0, 24.0];
/// The approximate number of ticks on an axis.
const TICKS: f64 = 8.0;

/// A range and the step between its ticks.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    step: f64,
}

/// A unit of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) seconds: f64,
    /// Steps between ticks; if empty, round numbers.
    steps: &'static [f64],
}

/// The unit for a duration in seconds.
pub(super) fn time_unit(duration: f64) -> Unit {
    match duration {
        short if short <= 600.0 => Unit { name: "s", seconds: 1.0, steps: &[] },
        hours if hours <= 4.0 * 3600.0 => Unit { name: "min", seconds: 60.0, steps: &MINUTES },
        days if days <= 4.0 * 86_400.0 => Unit { name: "h", seconds: 3600.0, steps: &HOURS },
        _ => Unit { name: "days", seconds: 86_400.0, steps: &[] },
    }
}

/// 1, 2 or 5 times a power of ten, for about this number of steps.
fn round_step(range: f64, steps: f64) -> f64 {
    let rough = range / steps;
    let power = 10_f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= rough);
    digit.map_or(10.0 * power, |digit| digit * power)
}

impl Axis {
    /// From one time in seconds to a later one, in a unit.
    pub(super) fn between(from_s: f64, to_s: f64, unit: Unit) -> Self {
        let (from, to) = (from_s / unit.seconds, to_s / unit.seconds);
        let range = to - from;
        let step = unit.steps.iter().copied().find(|step| range / step <= TICKS + 1.0);
        Self { from, to, step: step.unwrap_or_else(|| round_step(range, TICKS)) }
    }

    /// From 0 to a count, in whole numbers.
    pub(super) fn counts(most: f64) -> Self {
        let step = round_step(most, 4.0).max(1.0);
        Self { from: 0.0, to: (most / step).ceil() * step, step }
    }

    /// The position of a value between the ends.
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
        let time = |seconds: f64| labels(&Axis::between(0.0, seconds, time_unit(seconds)));
        assert_eq!(time(500.0), ["0", "100", "200", "300", "400", "500"]);
        assert_eq!(time(1200.0), ["0", "5", "10", "15", "20"]);
        assert_eq!(time(86_400.0), ["0", "3", "6", "9", "12", "15", "18", "21", "24"]);
        assert_eq!(time(5.0 * 86_400.0), ["0", "1", "2", "3", "4", "5"]);
    }

    #[test]
    fn fractions_stay_within() {
        let axis = Axis::counts(10.0);
        assert!((axis.fraction(5.0) - 0.5).abs() < 1e-12);
        assert!((axis.fraction(50.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_unit_suits_the_duration() {
        assert_eq!([60.0, 3600.0, 90_000.0, 1e6].map(|duration| time_unit(duration).name), ["s", "min", "h", "days"]);
    }
}
