//! From values to places.

/// How values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Scale {
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal factors.
    Logarithmic,
}

/// Values between two ends, and where they go.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    /// Places of the ends, in units of the drawing.
    start: f64,
    end: f64,
    /// Positions of the grid lines, with their labels.
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// An axis over all values from 0, or from the least for a logarithmic one; it ends at a round number.
    pub(in crate::report) fn over(values: impl Iterator<Item = f64>, scale: Scale, start: f64, end: f64) -> Self {
        let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let greatest = finite.iter().copied().fold(0.0, f64::max);
        match scale {
            Scale::Linear => {
                let step = round_step(greatest.max(f64::MIN_POSITIVE) / 4.0);
                let count = (greatest / step).ceil().max(1.0);
                #[expect(clippy::cast_sign_loss, reason = "at most ten ticks above 0")]
                let ticks = (0..=count as u32).map(|place| f64::from(place) * step).collect();
                Self { scale, from: 0.0, to: count * step, start, end, ticks }
            }
            Scale::Logarithmic => {
                let least = finite.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
                let least = if least.is_finite() { least } else { 1.0 };
                Self::logarithmic(least, greatest.max(least), start, end)
            }
        }
    }

    /// From one value to another, exactly.
    pub(in crate::report) fn exact(from: f64, to: f64, start: f64, end: f64) -> Self {
        let step = round_step((to - from).max(f64::MIN_POSITIVE) / 6.0);
        let first = (from / step).ceil();
        #[expect(clippy::cast_sign_loss, reason = "at most a dozen ticks")]
        let count = ((to / step).floor() - first).max(0.0) as u32;
        let ticks = (0..=count).map(|place| (first + f64::from(place)) * step).collect();
        Self { scale: Scale::Linear, from, to, start, end, ticks }
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
            .collect();
        Self { scale: Scale::Logarithmic, from, to, start, end, ticks }
    }

    /// The position of a value; values outside are at the end.
    pub(super) fn place(&self, value: f64) -> f64 {
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

/// The next of 1, 2, 5, 10, ...
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= step * 0.999_999).unwrap_or(10.0);
    times * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_round_number() {
        let axis = Axis::over([3.0, 87.0].into_iter(), Scale::Linear, 0.0, 100.0);
        assert_eq!(axis.ticks, [0.0, 50.0, 100.0]);
        assert!((axis.place(50.0) - 50.0).abs() < 1e-9);
        assert!((axis.place(1e9) - 100.0).abs() < 1e-9, "what lies outside stays inside the drawing");
    }

    #[test]
    fn a_logarithmic_axis_has_whole_powers_of_ten() {
        let axis = Axis::over([0.3, 40.0].into_iter(), Scale::Logarithmic, 300.0, 0.0);
        assert!((axis.place(0.1) - 300.0).abs() < 1e-9 && axis.place(100.0).abs() < 1e-9);
        assert!((axis.place(1.0) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_show_is_no_failure() {
        let axis = Axis::over(std::iter::empty(), Scale::Logarithmic, 0.0, 1.0);
        assert!(axis.place(f64::NAN).is_finite() && !axis.ticks.is_empty());
        let axis = Axis::over([0.0].into_iter(), Scale::Linear, 0.0, 1.0);
        assert!(axis.ticks.iter().all(|tick| tick.is_finite()));
    }
}
