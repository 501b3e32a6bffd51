//! From values to positions.

use crate::number::shown;

/// Steps of minutes between ticks.
const MINUTES: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0];
/// Steps of hours between ticks.
const HOURS: [f64; 6] = [1.0, 2.0, 3.0, 6.0, 12.0, 24.0];
/// The most ticks on an axis of time.
const TICKS: f64 = 9.0;

/// How values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal factors.
    Logarithmic,
}

/// A value that has a mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub value: f64,
    /// The text beside the mark.
    pub label: String,
}

/// Values between two ends, and their positions in units of the drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) ticks: Vec<Tick>,
}

impl Axis {
    /// An axis over all values from 0, or from the least for a logarithmic one; it ends at a round number.
    pub fn over(values: impl Iterator<Item = f64>, scale: Scale, start: f64, end: f64) -> Self {
        let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let greatest = finite.iter().copied().fold(0.0, f64::max);
        match scale {
            Scale::Linear => Self::from_zero(greatest, round_step(greatest.max(f64::MIN_POSITIVE) / 4.0), start, end),
            Scale::Logarithmic => {
                let least = finite.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
                let least = if least.is_finite() { least } else { 1.0 };
                Self::logarithmic(least, greatest.max(least), start, end)
            }
        }
    }

    /// From 0 to a count or more, with ticks at whole numbers.
    pub fn counts(most: f64, start: f64, end: f64) -> Self {
        Self::from_zero(most, round_step(most.max(1.0) / 4.0).max(1.0), start, end)
    }

    fn from_zero(most: f64, step: f64, start: f64, end: f64) -> Self {
        let count = (most / step).ceil().max(1.0);
        #[expect(clippy::cast_sign_loss, reason = "at most ten ticks above 0")]
        let values = (0..=count as u32).map(|place| f64::from(place) * step);
        Self { scale: Scale::Linear, from: 0.0, to: count * step, start, end, ticks: values.map(labelled).collect() }
    }

    /// From one value to another, exactly.
    pub fn exact(from: f64, to: f64, start: f64, end: f64) -> Self {
        Self::stepped((from, to), round_step((to - from).max(f64::MIN_POSITIVE) / 6.0), 1.0, (start, end))
    }

    /// From one time in seconds to a later one. Returns the unit of the labels, too.
    pub fn time(from_s: f64, to_s: f64, start: f64, end: f64) -> (Self, &'static str) {
        let duration = to_s - from_s;
        let (name, unit, steps): (_, f64, &[f64]) = match duration {
            short if short <= 600.0 => ("s", 1.0, &[]),
            hours if hours <= 4.0 * 3600.0 => ("min", 60.0, &MINUTES),
            days if days <= 4.0 * 86_400.0 => ("h", 3600.0, &HOURS),
            _ => ("days", 86_400.0, &[]),
        };
        let range = duration / unit;
        let step = steps.iter().copied().find(|step| range / step <= TICKS);
        let step = step.unwrap_or_else(|| round_step(range.max(f64::MIN_POSITIVE) / 8.0));
        (Self::stepped((from_s, to_s), step, unit, (start, end)), name)
    }

    /// Ticks at each multiple of a step between two values; step and labels are in a unit of the values.
    fn stepped((from, to): (f64, f64), step: f64, unit: f64, (start, end): (f64, f64)) -> Self {
        let first = (from / unit / step).ceil();
        #[expect(clippy::cast_sign_loss, reason = "at most a dozen ticks")]
        let count = ((to / unit / step * (1.0 + 1e-9)).floor() - first).max(0.0) as u32;
        let multiples = (0..=count).map(|place| (first + f64::from(place)) * step);
        let ticks = multiples.map(|value| Tick { value: value * unit, label: shown(value) }).collect();
        Self { scale: Scale::Linear, from, to, start, end, ticks }
    }

    /// The same axis with other ticks.
    #[must_use]
    pub fn with_ticks(self, ticks: Vec<Tick>) -> Self {
        Self { ticks, ..self }
    }

    fn logarithmic(least: f64, greatest: f64, start: f64, end: f64) -> Self {
        let (low, high) = (least.log10().floor(), greatest.log10().ceil());
        let high = if high > low { high } else { low + 1.0 };
        let decades = high - low;
        let between: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        #[expect(clippy::cast_possible_truncation, reason = "powers of ten of floats are small")]
        let powers = low as i32..=high as i32;
        let (from, to) = (10_f64.powf(low), 10_f64.powf(high));
        let ticks = powers
            .flat_map(|power| between.iter().map(move |times| times * 10_f64.powi(power)))
            .filter(|tick| *tick <= to * 1.000_001)
            .map(labelled)
            .collect();
        Self { scale: Scale::Logarithmic, from, to, start, end, ticks }
    }

    /// The position of a value; values outside are at the end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Logarithmic => {
                (value.max(self.from).log10() - self.from.log10()) / (self.to.log10() - self.from.log10())
            }
        };
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self.start + part * (self.end - self.start)
    }
}

fn labelled(value: f64) -> Tick {
    Tick { value, label: shown(value) }
}

/// The next of 1, 2, 5, 10, ...
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= step * 0.999_999).unwrap_or(10.0);
    times * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn counts_and_times_have_round_ticks() {
        assert_eq!(labels(&Axis::counts(11.0, 0.0, 1.0)), ["0", "5", "10", "15"]);
        assert_eq!(labels(&Axis::counts(1.0, 0.0, 1.0)), ["0", "1"]);
        let cases: [(f64, &str, &[&str]); 4] = [
            (500.0, "s", &["0", "100", "200", "300", "400", "500"]),
            (1200.0, "min", &["0", "5", "10", "15", "20"]),
            (86_400.0, "h", &["0", "3", "6", "9", "12", "15", "18", "21", "24"]),
            (5.0 * 86_400.0, "days", &["0", "1", "2", "3", "4", "5"]),
        ];
        for (seconds, unit, ticks) in cases {
            let (axis, name) = Axis::time(0.0, seconds, 0.0, 1.0);
            assert_eq!((name, labels(&axis).as_slice()), (unit, ticks));
        }
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_round_number() {
        let axis = Axis::over([3.0, 87.0].into_iter(), Scale::Linear, 0.0, 100.0);
        assert_eq!(labels(&axis), ["0", "50", "100"]);
        assert!((axis.place(50.0) - 50.0).abs() < 1e-9);
        assert!((axis.place(1e9) - 100.0).abs() < 1e-9, "a value outside has a position inside the drawing");
    }

    #[test]
    fn a_logarithmic_axis_has_whole_powers_of_ten() {
        let axis = Axis::over([0.3, 40.0].into_iter(), Scale::Logarithmic, 300.0, 0.0);
        assert!((axis.place(0.1) - 300.0).abs() < 1e-9 && axis.place(100.0).abs() < 1e-9);
        assert!((axis.place(1.0) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn an_empty_axis_has_finite_ticks() {
        let axis = Axis::over(std::iter::empty(), Scale::Logarithmic, 0.0, 1.0);
        assert!(axis.place(f64::NAN).is_finite() && !axis.ticks.is_empty());
        let axis = Axis::over([0.0].into_iter(), Scale::Linear, 0.0, 1.0);
        assert!(axis.ticks.iter().all(|tick| tick.value.is_finite()));
    }
}
