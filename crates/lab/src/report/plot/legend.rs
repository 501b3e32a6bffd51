//! The line of each series.

use super::{colour, dashes};
use crate::report::markup::{escape, put};

/// The names of all series, each behind a piece of its line; they wrap where a page is narrow.
pub(in crate::report) fn legend(names: &[String]) -> String {
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
