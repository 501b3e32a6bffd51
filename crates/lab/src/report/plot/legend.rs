//! Which line is whose.

use super::{colour, dashes};
use crate::report::markup::{escape, put};

/// Width of a letter, about.
const LETTER: f64 = 6.3;

/// The names of all series in a row, each with a piece of its line.
pub(in crate::report) fn legend(names: &[String]) -> String {
    let mut out = String::from("<svg viewBox=\"0 0 960 18\" role=\"img\" aria-label=\"Legend\">");
    let mut x = 8.0;
    for (series, name) in names.iter().enumerate() {
        let class = colour(series);
        put!(
            out,
            "<line class=\"curve c{class}\"{} x1=\"{x:.0}\" y1=\"9\" x2=\"{:.0}\" y2=\"9\"/>",
            dashes(series),
            x + 30.0
        );
        put!(out, "<text class=\"strong\" x=\"{:.0}\" y=\"13\">{}</text>", x + 35.0, escape(name));
        #[expect(clippy::cast_precision_loss, reason = "names are short")]
        let width = name.chars().count() as f64 * LETTER;
        x += 35.0 + width + 22.0;
    }
    out.push_str("</svg>");
    out
}
