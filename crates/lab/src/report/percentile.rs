//! Latency by percentile: the axis gives each further nine as much room as the one before, since that is where brokers
//! differ.

use tidegate_plot::{Anchor, Axis, Drawing, Frame, Scale, Tick};

use crate::load::Histogram;

const BOTTOM: f64 = 196.0;
const TOP: f64 = 24.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 508.0;
/// The shares that are labelled.
const LABELS: [(f64, &str); 6] =
    [(0.0, "0"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];
/// Nines of the right end.
const MOST_NINES: f64 = 5.0;
/// Steps of a curve for a nine.
const STEPS: u32 = 24;

/// One curve for each histogram with its series; those without a value are left out.
pub(super) fn percentiles(label: &str, curves: &[(usize, &Histogram)]) -> String {
    let curves: Vec<(usize, Vec<(f64, f64)>)> =
        curves.iter().filter(|(_, times)| times.count() > 0).map(|(series, times)| (*series, points(times))).collect();
    let values = curves.iter().flat_map(|(_, points)| points.iter().map(|(_, ms)| *ms));
    let y = Axis::over(values, Scale::Logarithmic, BOTTOM, TOP);
    let most = curves.iter().flat_map(|(_, points)| points.iter().map(|(nines, _)| *nines)).fold(2.0, f64::max);
    let labels = LABELS.iter().filter(|(share, _)| nines(*share) <= most + 1e-9);
    let ticks = labels.map(|(share, name)| Tick { value: nines(*share), label: (*name).to_owned() }).collect();
    let frame = Frame { x: Axis::exact(0.0, most, LEFT, RIGHT).with_ticks(ticks), y };
    let mut drawing = Drawing::new(520.0, 230.0);
    drawing.text((LEFT, 13.0), Anchor::Start, "milliseconds (logarithmic)");
    frame.grid(&mut drawing);
    frame.ticks(&mut drawing);
    drawing.text((RIGHT, BOTTOM + 30.0), Anchor::End, "of all deliveries that came are faster");
    for (series, points) in &curves {
        frame.curve(*series, points, &mut drawing);
    }
    frame.bottom(&mut drawing);
    drawing.embedded(label)
}

/// 0.9 is one nine, 0.99 two.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// Nines and milliseconds, as far as there are enough values to say so: a thousand values have three nines.
fn points(times: &Histogram) -> Vec<(f64, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "a logarithm needs no more than a float has")]
    let most = (times.count() as f64).log10().min(MOST_NINES);
    #[expect(clippy::cast_sign_loss, reason = "counts are at least 1")]
    let steps = (most * f64::from(STEPS)).floor() as u32;
    (0..=steps)
        .map(|step| {
            let nines = f64::from(step) / f64::from(STEPS);
            #[expect(clippy::cast_precision_loss, reason = "milliseconds need no more than a float has")]
            let ms = times.at(1.0 - 10_f64.powf(-nines)) as f64 / 1e6;
            (nines, ms)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_values_say_nothing_of_a_fourth_nine() {
        let mut times = Histogram::new();
        for ms in 1..=1000 {
            times.record(ms * 1_000_000);
        }
        let points = points(&times);
        let (last, ms) = points.last().copied().unwrap();
        assert!((last - 3.0).abs() < 0.05, "{last}");
        assert!((ms - 999.0).abs() < 3.0, "{ms}");
        let svg = percentiles("Latency", &[(0, &times), (1, &Histogram::new())]);
        assert!(svg.contains("99.9 %") && !svg.contains("99.99 %"));
        assert_eq!(svg.matches("polyline").count(), 1, "a broker without deliveries has no curve");
    }
}
