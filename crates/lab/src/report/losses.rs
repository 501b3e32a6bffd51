//! Messages that were lost or never sent, and the causes.

use super::markup::{escape, put};
use crate::load::Losses;
use crate::results::{Results, Run};

/// The name of a column, and its number.
type Cause = (&'static str, fn(&Losses) -> u64);

const CAUSES: [Cause; 6] = [
    ("Refused", |losses| losses.refused),
    ("Queue full", |losses| losses.overflow),
    ("Expired", |losses| losses.expiry),
    ("Disconnected", |losses| losses.disconnect),
    ("No cause seen", |losses| losses.unknown),
    ("Never sent", |losses| losses.unsent),
];

/// A row for each case and broker that has lost something or was late, summed over the repetitions.
pub(super) fn write(results: &Results, out: &mut String) {
    let mut rows = String::new();
    for case in results.case_names() {
        for peer in results.peer_names() {
            let runs: Vec<&Run> = results.runs.iter().filter(|run| run.case == case && run.peer == peer).collect();
            row(&case, &peer, &runs, &mut rows);
        }
    }
    if rows.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"losses\">Lost, and why</h2><p class=\"note\">Deliveries that were due and never came, by causes that can be seen from outside, and messages that \
                  were never sent, over all repetitions. Who is not in the table has lost nothing.</p>");
    out.push_str("<div class=\"scroll\"><table><thead><tr><th>Case</th><th class=\"text\">Broker</th><th>Due</th><th>Came late</th>");
    for (cause, _) in CAUSES {
        put!(out, "<th>{cause}</th>");
    }
    put!(out, "</tr></thead><tbody>{rows}</tbody></table></div>");
}

fn row(case: &str, peer: &str, runs: &[&Run], out: &mut String) {
    let (mut losses, mut late, mut due) = (Losses::default(), 0, 0);
    for run in runs {
        losses.add(&run.load.losses);
        late += run.load.counts.late;
        due += run.load.counts.due;
    }
    if losses == Losses::default() && late == 0 {
        return;
    }
    put!(out, "<tr><td>{}</td><td class=\"text\">{}</td><td>{due}</td><td>{late}</td>", escape(case), escape(peer));
    for (_, count) in CAUSES {
        put!(out, "<td>{}</td>", count(&losses));
    }
    out.push_str("</tr>");
}
