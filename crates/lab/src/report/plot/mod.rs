//! Plots as SVG: colours only help, lines differ by their dashes and bars by their labels.

mod axis;
mod bars;
mod legend;
mod line;
mod percentile;

pub(super) use axis::Scale;
pub(super) use bars::{Bar, ratios};
pub(super) use legend::legend;
pub(super) use line::{Curve, Mark, lines};
pub(super) use percentile::percentiles;

/// Number of series with different colours; further ones share a colour.
const SERIES: usize = 8;

/// The dashes of each series, so that they differ in black and white.
const DASHES: [&str; SERIES] = ["", "7 3", "2 2", "9 3 2 3", "4 4", "12 3", "1 3", "6 2 1 2 1 2"];

/// The class of a series' colour.
fn colour(series: usize) -> usize {
    series % SERIES
}

fn dashes(series: usize) -> String {
    match DASHES.get(series % SERIES) {
        Some(dashes) if !dashes.is_empty() => format!(" stroke-dasharray=\"{dashes}\""),
        _ => String::new(),
    }
}
