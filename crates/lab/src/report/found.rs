//! Results of tests for questions that a load does not answer.

use super::markup::{escape, put};
use crate::results::{Found, Results};

pub(super) fn write(results: &Results, out: &mut String) {
    if results.runs.iter().all(|run| run.found.is_empty()) {
        return;
    }
    out.push_str("<h2 id=\"found\">Findings</h2>");
    for run in &results.runs {
        let repetition = if results.settings.repeat > 1 { format!(", no. {}", run.repetition) } else { String::new() };
        for found in &run.found {
            put!(out, "<h3>{}: {}{repetition}</h3>", escape(&run.peer), escape(&run.case));
            table(found, out);
        }
    }
}

fn table(found: &Found, out: &mut String) {
    put!(out, "<div class=\"scroll\"><table><caption>{}</caption><thead><tr>", escape(&found.title));
    for column in &found.columns {
        put!(out, "<th class=\"text\">{}</th>", escape(column));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &found.rows {
        out.push_str("<tr>");
        for cell in row {
            put!(out, "<td class=\"text\">{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    for note in &found.notes {
        put!(out, "<p class=\"note\">{}.</p>", escape(note));
    }
}
