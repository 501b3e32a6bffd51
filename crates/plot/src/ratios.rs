//! Ratios against a base: bars to the right are better, bars to the left worse, by equal distances for equal factors.

use crate::axis::{Axis, Scale};
use crate::drawing::{Anchor, Drawing, width};
use crate::number::factor;

const ROW: f64 = 22.0;
const TOP: f64 = 26.0;
const LABEL: f64 = 120.0;
/// The left end of the axis: it leaves room for the number of a bar to the left.
const LEFT: f64 = 172.0;
const RIGHT: f64 = 460.0;

/// A ratio to the base.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The text before it.
    pub label: String,
    /// Its colour.
    pub series: usize,
    /// How many times as good as the base; above 1 is better.
    pub ratio: f64,
}

/// Bars from the base, whose name is above it.
pub fn ratios(label: &str, base: &str, bars: &[Bar]) -> String {
    let most =
        bars.iter().map(|bar| bar.ratio.max(1.0 / bar.ratio)).filter(|ratio| ratio.is_finite()).fold(2.0, f64::max);
    let x = Axis::over([1.0 / most, most].into_iter(), Scale::Logarithmic, LEFT, RIGHT);
    #[expect(clippy::cast_precision_loss, reason = "a few bars")]
    let bottom = TOP + bars.len() as f64 * ROW;
    let mut drawing = Drawing::new(520.0, bottom + 22.0);
    let centre = x.place(1.0);
    for tick in &x.ticks {
        let place = x.place(tick.value);
        drawing.line("grid", (place, TOP - 4.0), (place, bottom));
    }
    for (place, text) in labels(&x) {
        drawing.text((place, bottom + 14.0), Anchor::Middle, &text);
    }
    drawing.strong((centre, 14.0), Anchor::Middle, base);
    drawing.text((LEFT, 14.0), Anchor::Start, "◂ worse");
    drawing.text((RIGHT, 14.0), Anchor::End, "better ▸");
    for (row, bar) in bars.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a few bars")]
        let y = TOP + row as f64 * ROW;
        let (end, is_better) = (x.place(bar.ratio), bar.ratio >= 1.0);
        let text = if is_better { factor(bar.ratio) } else { format!("1/{}", factor(1.0 / bar.ratio)) };
        drawing.strong((LABEL - 8.0, y + 14.5), Anchor::End, &bar.label);
        drawing.bar(bar.series, (centre.min(end), y + 3.5), ((end - centre).abs().max(1.0), 14.0), &text);
        let (place, anchor) = if is_better { (end + 5.0, Anchor::Start) } else { (end - 5.0, Anchor::End) };
        drawing.strong((place, y + 14.5), anchor, &text);
    }
    drawing.line("base", (centre, TOP - 4.0), (centre, bottom));
    drawing.embedded(label)
}

/// Positions and texts of labels below the axis. Where they do not fit beside each other, only each second, third and so on
/// from the base has one.
fn labels(x: &Axis) -> Vec<(f64, String)> {
    let text = |tick: f64| if tick >= 1.0 { format!("{tick}×") } else { format!("1/{:.0}", 1.0 / tick) };
    let base = x.ticks.iter().position(|tick| tick.value >= 1.0).unwrap_or_default();
    let each = |step: usize| -> Vec<(f64, String)> {
        let ticks = x.ticks.iter().enumerate().filter(|(at, _)| at.abs_diff(base).is_multiple_of(step));
        ticks.map(|(_, tick)| (x.place(tick.value), text(tick.value))).collect()
    };
    let fit = |labels: &Vec<(f64, String)>| labels.windows(2).all(|two| two[1].0 - two[0].0 >= apart(two));
    (1..=x.ticks.len()).map(each).find(fit).unwrap_or_default()
}

/// The least distance between the middles of two labels.
fn apart(two: &[(f64, String)]) -> f64 {
    two.iter().map(|(_, text)| width(text) / 2.0).sum()
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
            assert!(labels.windows(2).all(|two| two[1].0 - two[0].0 >= apart(two)), "{labels:?}");
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
