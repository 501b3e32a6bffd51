//! The groups of clients of each run, in one unit, so that gateways are beside the broker, and roaming clients beside
//! the others.

use super::markup::{escape, put};
use crate::load::{Counts, GroupOutcome, LoadOutcome};
use crate::results::{Results, Run};
use tidegate_plot::shown;

/// Writes a table for each case, of the first valid run of each broker.
pub(super) fn write(results: &Results, out: &mut String) {
    let mut parts: Vec<(&Run, Vec<Part>)> = Vec::new();
    for case in results.case_names() {
        let runs = results.peer_names().into_iter().filter_map(|peer| shown_run(results, &case, &peer));
        parts.extend(runs.map(|run| (run, parts_of(run))));
    }
    if parts.iter().all(|(_, parts)| parts.len() < 3) {
        return;
    }
    out.push_str("<h2 id=\"groups\">Who did what</h2>");
    out.push_str(
        "<p class=\"note\">The groups of clients and the broker between them, in payload bytes a second (MB is a million), of the first valid repetition. In is \
         the input of a part, out its output. Latency counts from the time at which a message was due to be sent until the group had it.</p>\
         <div class=\"scroll\"><table><thead><tr><th>Case</th><th class=\"text\">Run with</th><th class=\"text\">Part</th><th>Clients</th><th>In, messages/s</th>\
         <th>In, MB/s</th><th>Out, messages/s</th><th>Out, MB/s</th><th>Mean, ms</th><th>Median, ms</th><th>p99, ms</th><th>Longest, ms</th></tr></thead><tbody>",
    );
    for (run, parts) in &parts {
        for part in parts {
            row(run, part, out);
        }
    }
    out.push_str("</tbody></table></div>");
}

fn shown_run<'a>(results: &'a Results, case: &str, peer: &str) -> Option<&'a Run> {
    let valid = results.runs.iter().find(|run| run.case == case && run.peer == peer && run.invalid.is_none());
    valid.or_else(|| results.runs.iter().find(|run| run.case == case && run.peer == peer))
}

/// A group, or the broker.
struct Part {
    name: String,
    clients: Option<u32>,
    messages: (u64, u64),
    bytes: (u64, u64),
    latency: Option<[f64; 4]>,
}

fn parts_of(run: &Run) -> Vec<Part> {
    let load = &run.load;
    let mut parts: Vec<Part> =
        load.groups.iter().zip(&run.plan.groups).map(|(group, plan)| of_group(group, plan.count)).collect();
    if !parts.is_empty() {
        parts.push(of_broker(load));
    }
    parts
}

fn of_group(group: &GroupOutcome, clients: u32) -> Part {
    let counts = &group.counts;
    let latency = (group.latency.count() > 0).then(|| {
        let at = |share: f64| milliseconds(group.latency.at(share));
        [group.latency.mean() / 1e6, at(0.5), at(0.99), at(1.0)]
    });
    Part {
        name: group.name.clone(),
        clients: Some(clients),
        messages: (counts.received, counts.sent + counts.passed_on),
        bytes: (counts.bytes_received, counts.bytes_sent + counts.bytes_passed_on),
        latency,
    }
}

/// The input of the broker is the output of clients, and the other way round.
fn of_broker(load: &LoadOutcome) -> Part {
    let sum = |of: fn(&Counts) -> u64| load.groups.iter().map(|group| of(&group.counts)).sum::<u64>();
    Part {
        name: "broker".to_owned(),
        clients: None,
        messages: (sum(|counts| counts.sent + counts.passed_on), sum(|counts| counts.received)),
        bytes: (sum(|counts| counts.bytes_sent + counts.bytes_passed_on), sum(|counts| counts.bytes_received)),
        latency: None,
    }
}

fn row(run: &Run, part: &Part, out: &mut String) {
    let seconds = run.load.measured_seconds();
    let rate =
        |number: u64, unit: f64| if seconds > 0.0 { shown(float(number) / seconds / unit) } else { "–".to_owned() };
    let mark = if run.invalid.is_some() { "†" } else { "" };
    put!(
        out,
        "<tr><td class=\"text\">{}</td><td class=\"text\">{}{mark}</td><td class=\"text\">{}</td><td>{}</td>",
        escape(&run.case),
        escape(&run.peer),
        escape(&part.name),
        part.clients.map_or_else(String::new, |clients| clients.to_string())
    );
    let (messages, bytes) = (part.messages, part.bytes);
    for (number, unit) in [(messages.0, 1.0), (bytes.0, 1e6), (messages.1, 1.0), (bytes.1, 1e6)] {
        put!(out, "<td>{}</td>", if number == 0 { String::new() } else { rate(number, unit) });
    }
    match part.latency {
        Some(latency) => latency.iter().for_each(|value| put!(out, "<td>{}</td>", shown(*value))),
        None => out.push_str("<td></td><td></td><td></td><td></td>"),
    }
    out.push_str("</tr>");
}

#[expect(clippy::cast_precision_loss, reason = "numbers are shown with a few digits")]
fn float(number: u64) -> f64 {
    number as f64
}

fn milliseconds(ns: u64) -> f64 {
    float(ns) / 1e6
}
