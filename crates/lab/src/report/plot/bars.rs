//! Ratios against a base: bars to the right are better, bars to the left worse, by equal distances for equal factors.

use super::axis::{Axis, Scale};
use super::colour;
use crate::report::markup::{escape, put};
use crate::report::number::factor;

const ROW: f64 = 22.0;
const LABEL: f64 = 120.0;
/// Where the axis begins: the number of a bar to the left is before it.
const LEFT: f64 = 172.0;
const RIGHT: f64 = 460.0;
/// Width of a letter of a label.
const LETTER: f64 = 6.5;

#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Bar {
    /// The text before it.
    pub(in crate::report) label: String,
    /// Its colour.
    pub(in crate::report) series: usize,
    /// How many times as good as the base; above 1 is better.
    pub(in crate::report) ratio: f64,
}

/// Bars from the base, whose name is above it.
pub(in crate::report) fn ratios(label: &str, base: &str, bars: &[Bar]) -> String {
    let most =
        bars.iter().map(|bar| bar.ratio.max(1.0 / bar.ratio)).filter(|ratio| ratio.is_finite()).fold(2.0, f64::max);
    let x = Axis::over([1.0 / most, most].into_iter(), Scale::Logarithmic, LEFT, RIGHT);
    #[expect(clippy::cast_precision_loss, reason = "a few bars")]
    let bottom = 26.0 + bars.len() as f64 * ROW;
    let mut out = String::new();
    put!(out, "<svg viewBox=\"0 0 520 {:.0}\" role=\"img\" aria-label=\"{}\">", bottom + 22.0, escape(label));
    let centre = x.place(1.0);
    for tick in &x.ticks {
        let place = x.place(*tick);
        put!(out, "<line class=\"grid\" x1=\"{place:.1}\" y1=\"22\" x2=\"{place:.1}\" y2=\"{bottom:.1}\"/>");
    }
    for (place, text) in labels(&x) {
        put!(out, "<text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>", bottom + 14.0);
    }
    put!(out, "<text class=\"strong\" x=\"{centre:.1}\" y=\"14\" text-anchor=\"middle\">{}</text>", escape(base));
    put!(
        out,
        "<text x=\"{LEFT}\" y=\"14\">◂ worse</text><text x=\"{RIGHT}\" y=\"14\" text-anchor=\"end\">better ▸</text>"
    );
    for (row, bar) in bars.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a few bars")]
        let y = 26.0 + row as f64 * ROW;
        let end = x.place(bar.ratio);
        let (from, width) = (centre.min(end), (end - centre).abs().max(1.0));
        put!(
            out,
            "<text class=\"strong\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LABEL - 8.0,
            y + 14.5,
            escape(&bar.label)
        );
        put!(
            out,
            "<rect class=\"f{}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\" rx=\"2\"/>",
            colour(bar.series),
            y + 3.5
        );
        let (place, anchor) = if bar.ratio >= 1.0 { (end + 5.0, "start") } else { (end - 5.0, "end") };
        let text = if bar.ratio >= 1.0 { factor(bar.ratio) } else { format!("1/{}", factor(1.0 / bar.ratio)) };
        put!(
            out,
            "<text class=\"strong\" x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
            y + 14.5
        );
    }
    put!(out, "<line class=\"base\" x1=\"{centre:.1}\" y1=\"22\" x2=\"{centre:.1}\" y2=\"{bottom:.1}\"/></svg>");
    out
}

/// Places and texts of labels below the axis. Where they do not fit beside each other, only each second, third and so on
/// from the base has one.
fn labels(x: &Axis) -> Vec<(f64, String)> {
    let text = |tick: f64| if tick >= 1.0 { format!("{tick}×") } else { format!("1/{:.0}", 1.0 / tick) };
    let base = x.ticks.iter().position(|tick| *tick >= 1.0).unwrap_or_default();
    let each = |step: usize| -> Vec<(f64, String)> {
        let ticks = x.ticks.iter().enumerate().filter(|(at, _)| at.abs_diff(base).is_multiple_of(step));
        ticks.map(|(_, tick)| (x.place(*tick), text(*tick))).collect()
    };
    let fit =
        |labels: &Vec<(f64, String)>| labels.windows(2).all(|two| two[1].0 - two[0].0 >= width(&two[0].1, &two[1].1));
    (1..=x.ticks.len()).map(each).find(fit).unwrap_or_default()
}

/// The least distance between the middles of two labels.
#[expect(clippy::cast_precision_loss, reason = "a few letters")]
fn width(one: &str, other: &str) -> f64 {
    (one.chars().count() + other.chars().count()) as f64 * LETTER / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_large_ratios_do_not_overlap() {
        for most in [3.0, 30.0, 900.0, 9e3, 9e5, 9e12] {
            let x = Axis::over([1.0 / most, most].into_iter(), Scale::Logarithmic, LEFT, RIGHT);
            let labels = labels(&x);
            assert!(labels.iter().any(|(_, text)| text == "1×") && labels.len() <= x.ticks.len(), "{labels:?}");
            assert!(labels.windows(2).all(|two| two[1].0 - two[0].0 >= width(&two[0].1, &two[1].1)), "{labels:?}");
        }
    }

    #[test]
    fn better_is_right_of_the_base_and_worse_is_left() {
        let bars = [
            Bar { label: "a".to_owned(), series: 0, ratio: 4.0 },
            Bar { label: "b".to_owned(), series: 1, ratio: 0.25 },
        ];
        let svg = ratios("Ratios", "base", &bars);
        assert!(svg.contains(">4.00×</text>") && svg.contains(">1/4.00×</text>"), "{svg}");
        let starts: Vec<f64> = svg
            .split("<rect class=\"f")
            .skip(1)
            .map(|rest| rest.split("x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!((starts[0] - f64::midpoint(LEFT, RIGHT)).abs() < 0.1 && starts[1] < starts[0], "{starts:?}");
    }
}
