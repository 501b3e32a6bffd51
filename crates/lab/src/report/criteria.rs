//! The criteria of the survey: a row for each, and a column for each broker.

use super::markup::{escape, put};
use crate::criteria::{CRITERIA, TITLE};
use crate::results::{Found, Results};

/// The mark of an answer that was found by trying.
const TRIED: &str = "●";

/// Writes the table, if the runs have the results for it.
pub(super) fn write(results: &Results, out: &mut String) {
    let peers: Vec<(String, &Found)> = results
        .peer_names()
        .into_iter()
        .filter_map(|peer| {
            let found = results.runs.iter().filter(|run| run.peer == peer).flat_map(|run| &run.found);
            found.into_iter().find(|found| found.title == TITLE).map(|found| (peer, found))
        })
        .collect();
    put!(
        out,
        "<h2 id=\"found\">{}</h2><p class=\"note\">{TRIED} a probe has tried it on the broker as the lab configures it; \
         a measured criterion names its scenario, whose report has the figures. – not known.</p>",
        escape(TITLE)
    );
    out.push_str("<div class=\"scroll\"><table class=\"criteria\"><thead><tr><th>Criterion</th>");
    for (peer, _) in &peers {
        put!(out, "<th class=\"text\">{}</th>", escape(peer));
    }
    out.push_str("</tr></thead><tbody>");
    for criterion in &CRITERIA {
        put!(out, "<tr><td class=\"text\"><b>{}</b><br>{}", criterion.id, escape(criterion.title));
        if let Some(scenario) = criterion.measured_by {
            put!(out, "<br><span class=\"note\">{}</span>", escape(scenario));
        }
        out.push_str("</td>");
        for (_, found) in &peers {
            out.push_str("<td class=\"text\">");
            answers(found, criterion.id, out);
            out.push_str("</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

/// The answers of one broker to one criterion.
fn answers(found: &Found, id: &str, out: &mut String) {
    let mut said = false;
    for row in found.rows.iter().filter(|row| row.first().is_some_and(|first| first == id)) {
        let [_, _, text, by, _] = row.as_slice() else { continue };
        if by == "probe" {
            put!(out, "<div>{TRIED} {}</div>", escape(text));
        } else if by == "scenario" {
            out.push_str("<div>measured</div>");
        } else {
            continue;
        }
        said = true;
    }
    if !said {
        out.push('–');
    }
}
