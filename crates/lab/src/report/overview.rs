//! One page that leads to the reports of several scenarios.

use super::markup::{escape, put};
use super::page::page;
use crate::results::{Results, Table};
use tidegate_plot::shown;

/// The page; each report is in a directory with the name of its scenario beside it.
pub fn overview(all: &[Results]) -> String {
    let mut peers: Vec<String> = Vec::new();
    for name in all.iter().flat_map(Results::peer_names) {
        if !peers.contains(&name) {
            peers.push(name);
        }
    }
    let runs: usize = all.iter().map(|results| results.runs.len()).sum();
    let missing: usize = all.iter().map(|results| results.not_measured.len()).sum();
    let mut out = String::new();
    put!(out, "<p class=\"kicker\">Tidegate lab</p><h1>{} scenarios</h1>", all.len());
    put!(
        out,
        "<p>{runs} runs were made, {missing} were not. Each scenario has a report of its own; the number shown is its first measure, the median of \
         its runs.</p>"
    );
    out.push_str("<div class=\"scroll\"><table><thead><tr><th>Scenario</th><th class=\"text\">Measure</th>");
    for peer in &peers {
        put!(out, "<th>{}</th>", escape(peer));
    }
    out.push_str("<th>Runs</th><th>Not valid</th><th>Not made</th></tr></thead><tbody>");
    for results in all {
        row(results, &peers, &mut out);
    }
    out.push_str("</tbody></table></div>");
    page("Scenarios of the lab", &out)
}

fn row(results: &Results, peers: &[String], out: &mut String) {
    let (name, title) = (escape(&results.scenario.name), escape(&results.scenario.title));
    put!(out, "<tr><td><a href=\"{name}/report.html\">{title}</a></td>");
    let first = results.scenario.measures.first().copied();
    let (title, unit) = first.map_or(("a test: see its report", ""), crate::results::Measure::name);
    put!(out, "<td class=\"text\">{title}{}{unit}</td>", if unit.is_empty() { "" } else { ", " });
    let table = first.map(|measure| Table::of(results, measure));
    for peer in peers {
        let medians: Vec<f64> = table
            .iter()
            .flat_map(|table| table.cells.iter().filter(|cell| cell.peer == *peer).map(|cell| cell.median))
            .collect();
        let value = crate::results::statistics::median(&medians).map_or_else(|| "–".to_owned(), shown);
        put!(out, "<td>{value}</td>");
    }
    let invalid = results.runs.iter().filter(|run| run.invalid.is_some()).count();
    put!(out, "<td>{}</td><td>{invalid}</td><td>{}</td></tr>", results.runs.len(), results.not_measured.len());
}
