//! Latency by percentile: the axis gives each further nine as much room as the one before, since that is where brokers
//! differ.

use super::axis::{Axis, Scale};
use super::line::horizontal;
use super::{colour, dashes};
use crate::load::Histogram;
use crate::report::markup::{escape, put};

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
pub(in crate::report) fn percentiles(label: &str, curves: &[(usize, &Histogram)]) -> String {
    let curves: Vec<(usize, Vec<(f64, f64)>)> =
        curves.iter().filter(|(_, times)| times.count() > 0).map(|(series, times)| (*series, points(times))).collect();
    let values = curves.iter().flat_map(|(_, points)| points.iter().map(|(_, ms)| *ms));
    let y = Axis::over(values, Scale::Logarithmic, BOTTOM, TOP);
    let most = curves.iter().flat_map(|(_, points)| points.iter().map(|(nines, _)| *nines)).fold(2.0, f64::max);
    let x = Axis::exact(0.0, most, LEFT, RIGHT);
    let mut out = String::new();
    put!(out, "<svg viewBox=\"0 0 520 230\" role=\"img\" aria-label=\"{}\">", escape(label));
    put!(out, "<text x=\"{LEFT}\" y=\"13\">milliseconds (logarithmic)</text>");
    horizontal(&y, &mut out);
    for (share, name) in LABELS.iter().filter(|(share, _)| nines(*share) <= most + 1e-9) {
        let place = x.place(nines(*share));
        put!(
            out,
            "<line class=\"axis\" x1=\"{place:.1}\" y1=\"{BOTTOM}\" x2=\"{place:.1}\" y2=\"{:.1}\"/>",
            BOTTOM + 4.0
        );
        // A label at the end of the axis would be cut off.
        let anchor = if place > RIGHT - 14.0 { "end" } else { "middle" };
        put!(out, "<text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>", BOTTOM + 16.0);
    }
    put!(
        out,
        "<text x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">of all deliveries that came are faster</text>",
        BOTTOM + 30.0
    );
    for (series, points) in &curves {
        put!(out, "<polyline class=\"curve c{}\"{} points=\"", colour(*series), dashes(*series));
        for (nines, ms) in points {
            put!(out, "{:.1},{:.1} ", x.place(*nines), y.place(*ms));
        }
        out.push_str("\"/>");
    }
    put!(out, "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/></svg>");
    out
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
