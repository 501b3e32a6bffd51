//! Colours and dashes of series.

/// Number of series that differ; further ones repeat the first.
pub(crate) const SERIES: usize = 10;

/// The dashes of each series, so that they differ in black and white.
const DASHES: [&str; SERIES] = ["", "7 3", "2 2", "9 3 2 3", "4 4", "12 3", "1 3", "6 2 1 2 1 2", "14 3 2 3", "3 6"];

/// The number in the class of a series' colour.
pub(crate) fn colour(series: usize) -> usize {
    series % SERIES
}

/// The attribute with the dashes of a series.
pub(crate) fn dashes(series: usize) -> String {
    match DASHES.get(colour(series)) {
        Some(dashes) if !dashes.is_empty() => format!(" stroke-dasharray=\"{dashes}\""),
        _ => String::new(),
    }
}
