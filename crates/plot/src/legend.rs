//! The line of each series beside its name.

use crate::drawing::{Anchor, Drawing, width};
use crate::markup::{escape, put};
use crate::series::{colour, dashes};

/// The names of all series, each behind a piece of its line; they wrap where a page is narrow.
pub fn legend(names: &[String]) -> String {
    let mut out = String::from("<p class=\"legend\">");
    for (series, name) in names.iter().enumerate() {
        put!(
            out,
            "<span><svg viewBox=\"0 0 32 10\" aria-hidden=\"true\"><line class=\"curve c{}\"{} x1=\"0\" y1=\"5\" x2=\"32\" y2=\"5\"/></svg>{}</span> ",
            colour(series),
            dashes(series),
            escape(name)
        );
    }
    out.push_str("</p>");
    out
}

/// The sign of a series in the legend of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A piece of its line.
    Line(usize),
    /// A square in its colour.
    Bar(usize),
    /// A piece of the grey surface.
    Shade,
}

/// Units between two rows.
const ROW: f64 = 18.0;
/// Units of a sign, with the space behind it.
const SIGN: f64 = 32.0;

impl Key {
    /// Draws the signs with their names below each other from `left`, as many in a row as have room; returns the units down.
    pub fn draw(entries: &[(Key, &str)], (left, top): (f64, f64), drawing: &mut Drawing) -> f64 {
        let (mut x, mut y) = (left, top);
        for (key, name) in entries {
            let wide = SIGN + width(name) + 12.0;
            if x > left && x + wide > drawing.width() {
                (x, y) = (left, y + ROW);
            }
            match key {
                Self::Line(series) => drawing.curve(*series, &[(x, y - 4.0), (x + SIGN - 6.0, y - 4.0)]),
                Self::Bar(series) => drawing.bar(*series, (x + 14.0, y - 9.0), (11.0, 11.0), name),
                Self::Shade => drawing.shaded((x, y - 9.0), (SIGN - 6.0, 10.0)),
            }
            drawing.text((x + SIGN, y), Anchor::Start, name);
            x += wide;
        }
        y - top + if entries.is_empty() { 0.0 } else { ROW }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_that_is_too_wide_has_two_rows() {
        let mut drawing = Drawing::new(200.0, 100.0);
        let entries = [(Key::Line(0), "a rather long name"), (Key::Bar(1), "another long name")];
        assert!((Key::draw(&entries, (10.0, 20.0), &mut drawing) - 2.0 * ROW).abs() < 1e-9);
        let svg = drawing.embedded("");
        assert!(svg.contains("y=\"20.0\"") && svg.contains("y=\"38.0\""), "{svg}");
    }
}
