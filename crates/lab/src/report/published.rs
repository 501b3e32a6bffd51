//! Figures that others have published, beside ours.

use super::markup::{escape, prose, put};
use crate::results::{Results, Table};
use crate::scenario::Reference;
use tidegate_plot::shown;

pub(super) fn write(results: &Results, out: &mut String) {
    let scenario = &results.scenario;
    if scenario.references.is_empty() && scenario.differences.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"published\">Beside the study</h2>");
    if !scenario.differences.is_empty() {
        out.push_str("<p>What differs from it:</p><ul>");
        for difference in &scenario.differences {
            put!(out, "<li>{}</li>", prose(difference));
        }
        out.push_str("</ul>");
    }
    if scenario.references.is_empty() {
        return;
    }
    out.push_str(
        "<p class=\"note\">Their machines, networks and software were others: the table shows the figures of then and of here, not who is \
         faster. – was not measured here, or is no measure of ours.</p>\
         <div class=\"scroll\"><table><thead><tr><th>Id</th><th class=\"text\">Case</th><th class=\"text\">System</th><th class=\"text\">What</th><th>Published</th>",
    );
    let peers = results.peer_names();
    for peer in &peers {
        put!(out, "<th>{}</th>", escape(peer));
    }
    out.push_str("<th class=\"text\">Source</th></tr></thead><tbody>");
    for reference in &scenario.references {
        put!(
            out,
            "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td>",
            escape(&reference.id),
            escape(&reference.case),
            escape(&reference.system),
            escape(&reference.quantity),
            escape(&reference.value)
        );
        for peer in &peers {
            put!(out, "<td>{}</td>", escape(&ours(results, reference, peer)));
        }
        put!(out, "<td class=\"text\">{}</td></tr>", escape(&reference.source));
    }
    out.push_str("</tbody></table></div>");
}

/// The figure here of the same measure: the median of a case, or the range over all cases if the figure belongs to no
/// case.
fn ours(results: &Results, reference: &Reference, peer: &str) -> String {
    let Some(measure) = reference.measure else { return "–".to_owned() };
    let table = Table::of(results, measure);
    let cells: Vec<_> = table
        .cells
        .iter()
        .filter(|cell| cell.peer == peer && (reference.case.is_empty() || cell.case == reference.case))
        .collect();
    let medians = || cells.iter().map(|cell| cell.median);
    let (Some(least), Some(most)) = (medians().reduce(f64::min), medians().reduce(f64::max)) else {
        return "–".to_owned();
    };
    let mark = if cells.iter().any(|cell| cell.invalid) { "†" } else { "" };
    let unit = measure.name().1;
    if shown(least) == shown(most) {
        format!("{} {unit}{mark}", shown(most))
    } else {
        format!("{} – {} {unit}{mark}", shown(least), shown(most))
    }
}
