//! Medians with their spread.

use super::markup::{escape, put};
use super::measures;
use super::summary::{close, ranked};
use crate::results::{Better, Cell, Measure, Results, Table};
use tidegate_plot::shown;

pub(super) fn write(results: &Results, out: &mut String) {
    out.push_str("<h2 id=\"tables\">Tables</h2>");
    out.push_str("<p class=\"note\">The best of a row is marked where it stands out by more than one in a hundred. † no valid run.</p>");
    let first = measures(results);
    out.push_str("<div class=\"tables\">");
    for measure in &first {
        table(results, *measure, out);
    }
    out.push_str("</div><details><summary>All other measures</summary><div class=\"tables\">");
    for measure in Measure::ALL.iter().filter(|measure| !first.contains(measure)) {
        table(results, *measure, out);
    }
    out.push_str("</div></details>");
}

fn table(results: &Results, measure: Measure, out: &mut String) {
    let table = Table::of(results, measure);
    if table.cells.is_empty() {
        return;
    }
    let peers = results.peer_names();
    let (name, unit) = measure.name();
    let better = if measure.better() == Better::Higher { "more is better" } else { "less is better" };
    put!(out, "<div class=\"scroll\"><table><caption>{name} <span class=\"note\">{unit}, {better}</span></caption>");
    out.push_str("<thead><tr><th>Case</th>");
    for peer in &peers {
        put!(out, "<th>{}</th>", escape(peer));
    }
    out.push_str("</tr></thead><tbody>");
    for case in results.case_names() {
        put!(out, "<tr><td>{}</td>", escape(&case));
        let ranked = ranked(&table, &case);
        let best = match ranked.as_slice() {
            [first, second, ..] if !close(first.median, second.median) => Some(first.peer.clone()),
            _ => None,
        };
        for peer in &peers {
            cell(table.get(&case, peer), best.as_ref() == Some(peer), out);
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

fn cell(cell: Option<&Cell>, best: bool, out: &mut String) {
    let Some(cell) = cell else {
        out.push_str("<td>–</td>");
        return;
    };
    let mark = if cell.invalid { "†" } else { "" };
    put!(out, "<td{}>{}{mark}", if best { " class=\"best\"" } else { "" }, shown(cell.median));
    if cell.values.len() > 1 {
        put!(out, "<span class=\"spread\">{} – {}</span>", shown(cell.range.0), shown(cell.range.1));
    }
    out.push_str("</td>");
}
