//! Figures that others have published, beside ours.

use super::markup::{escape, put};
use crate::results::Results;

pub(super) fn write(results: &Results, out: &mut String) {
    let scenario = &results.scenario;
    if scenario.references.is_empty() && scenario.differences.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"published\">Beside the study</h2>");
    if !scenario.differences.is_empty() {
        out.push_str("<p>What differs from it:</p><ul>");
        for difference in &scenario.differences {
            put!(out, "<li>{}</li>", escape(difference));
        }
        out.push_str("</ul>");
    }
    if scenario.references.is_empty() {
        return;
    }
    out.push_str(
        "<p class=\"note\">Their machines, networks and software were others: the table shows what was found then, not who is faster.</p>\
         <div class=\"scroll\"><table><thead><tr><th>Id</th><th>Case</th><th>System</th><th>What</th><th>Published</th><th>Source</th></tr></thead><tbody>",
    );
    for reference in &scenario.references {
        put!(
            out,
            "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
            escape(&reference.id),
            escape(&reference.case),
            escape(&reference.system),
            escape(&reference.what),
            escape(&reference.value),
            escape(&reference.source)
        );
    }
    out.push_str("</tbody></table></div>");
}
