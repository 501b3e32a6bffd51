//! The summary for a reader in a hurry: the question, the first in each measure, and doubts about the numbers.

use super::markup::{escape, prose, put};
use super::measures;
use crate::results::{Better, Cell, Measure, Results, Table};
use tidegate_plot::{factor, shown};

pub(super) fn write(results: &Results, out: &mut String) {
    let scenario = &results.scenario;
    put!(out, "<p class=\"kicker\">Tidegate lab · {} · {}</p>", escape(&scenario.name), ids(results));
    put!(out, "<h1>{}</h1><p class=\"question\">{}</p>", escape(&scenario.title), prose(&scenario.question));
    put!(out, "<p>{}</p>", prose(&scenario.method));
    if results.scenario.check.is_some() {
        out.push_str("<nav><a href=\"#found\">Findings</a><a href=\"#made\">How it was made</a></nav>");
        warnings(results, out);
        return;
    }
    out.push_str(
        "<nav><a href=\"#ratios\">Ratios</a><a href=\"#tables\">Tables</a><a href=\"#latency\">Latency</a>\
         <a href=\"#time\">Over time</a>",
    );
    if !(scenario.references.is_empty() && scenario.differences.is_empty()) {
        out.push_str("<a href=\"#published\">Beside the study</a>");
    }
    out.push_str("<a href=\"#made\">How it was made</a></nav>");
    warnings(results, out);
    cards(results, out);
    extent(results, out);
}

fn ids(results: &Results) -> String {
    if results.scenario.ids.is_empty() { "no study".to_owned() } else { escape(&results.scenario.ids.join(", ")) }
}

fn warnings(results: &Results, out: &mut String) {
    let invalid = results.runs.iter().filter(|run| run.invalid.is_some()).count();
    if invalid > 0 {
        let all = results.runs.len();
        put!(
            out,
            "<p class=\"warn\"><b>{invalid} of {all} runs are not valid</b>: the generator was the bottleneck, or the broker ended. Where a case \
             has valid runs only those are counted; numbers of runs that are not valid are marked with †.</p>"
        );
    }
    if !results.not_measured.is_empty() {
        let count = match results.not_measured.len() {
            1 => "1 run".to_owned(),
            count => format!("{count} runs"),
        };
        put!(out, "<p class=\"warn\"><b>{} could not be made</b>; <a href=\"#missing\">which and why</a>.</p>", count);
    }
    if results.settings.repeat < 4 && results.scenario.check.is_none() {
        put!(
            out,
            "<p class=\"note\">{} of each case: enough for an impression; from four on, <code>tidegate lab compare</code> can call a difference \
             one.</p>",
            repetitions(results.settings.repeat)
        );
    }
}

fn repetitions(repeat: u32) -> String {
    if repeat == 1 { "One run".to_owned() } else { format!("{repeat} runs") }
}

/// For each of the first measures: who is best, in how many cases, and by how much over the next.
fn cards(results: &Results, out: &mut String) {
    let peers = results.peer_names();
    if peers.len() < 2 {
        single(results, out);
        return;
    }
    let before = out.len();
    let mut cards = 0;
    out.push_str("<div class=\"cards\">");
    for measure in measures(results).into_iter().take(6) {
        let table = Table::of(results, measure);
        if let Some(winner) = winner(results, &table) {
            put!(
                out,
                "<div class=\"card\"><div class=\"what\">{}</div><div class=\"who\">{}</div><div class=\"how\">{}</div></div>",
                measure.name().0,
                escape(&winner.who),
                escape(&winner.how)
            );
            cards += 1;
        }
    }
    out.push_str("</div>");
    if cards == 0 {
        out.truncate(before);
        out.push_str(
            "<p><b>No broker is ahead:</b> in no case have two brokers a valid run each that could be compared.</p>",
        );
    }
}

/// With one broker there is no comparison: its numbers themselves.
fn single(results: &Results, out: &mut String) {
    out.push_str("<div class=\"cards\">");
    for measure in measures(results).into_iter().take(6) {
        let table = Table::of(results, measure);
        let values = || table.cells.iter().map(|cell| cell.median);
        let (Some(least), Some(most)) = (values().reduce(f64::min), values().reduce(f64::max)) else { continue };
        let (name, unit) = measure.name();
        let text =
            if shown(least) == shown(most) { shown(most) } else { format!("{} – {}", shown(least), shown(most)) };
        put!(
            out,
            "<div class=\"card\"><div class=\"what\">{name}</div><div class=\"who\">{text}</div><div class=\"how\">{unit}, over all cases</div></div>"
        );
    }
    out.push_str("</div>");
}

struct Winner {
    who: String,
    how: String,
}

fn winner(results: &Results, table: &Table) -> Option<Winner> {
    let cases: Vec<Vec<&Cell>> =
        results.case_names().iter().map(|case| ranked(table, case)).filter(|ranked| ranked.len() > 1).collect();
    if cases.is_empty() {
        return None;
    }
    let equal = cases.iter().all(|ranked| ranked.iter().all(|cell| close(cell.median, ranked[0].median)));
    let unit = table.measure.name().1;
    if equal {
        let value = shown(cases[0][0].median);
        let same = cases.iter().all(|ranked| shown(ranked[0].median) == value);
        let how = if same { format!("{value} {unit} everywhere") } else { "the same in every case".to_owned() };
        return Some(Winner { who: "All equal".to_owned(), how });
    }
    let mut wins: Vec<(String, usize)> = Vec::new();
    for ranked in cases.iter().filter(|ranked| !close(ranked[0].median, ranked[1].median)) {
        match wins.iter_mut().find(|(peer, _)| *peer == ranked[0].peer) {
            Some((_, count)) => *count += 1,
            None => wins.push((ranked[0].peer.clone(), 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let Some((who, count)) = wins.first().filter(|(_, count)| 2 * count > cases.len()).cloned() else {
        return Some(shared_first(results, table, &cases));
    };
    let won: Vec<&Vec<&Cell>> = cases.iter().filter(|ranked| ranked[0].peer == who).collect();
    let first = won.first()?;
    let how = if cases.len() == 1 {
        let (a, b) = (first[0], first[1]);
        format!("{} {unit}; {} has {}{}", shown(a.median), b.peer, shown(b.median), ratio_text(table.measure, a, b))
    } else {
        format!("ahead in {count} of {} cases{}", cases.len(), typical(table.measure, &won))
    };
    Some(Winner { who, how })
}

/// If no broker is clearly first: the brokers that are first in every case, and how far the last one is behind.
fn shared_first(results: &Results, table: &Table, cases: &[Vec<&Cell>]) -> Winner {
    let first = |peer: &String| {
        cases.iter().all(|ranked| ranked.iter().any(|cell| cell.peer == *peer && close(cell.median, ranked[0].median)))
    };
    let leaders: Vec<String> = results.peer_names().into_iter().filter(first).collect();
    let (best, last) = cases
        .iter()
        .filter_map(|ranked| Some((*ranked.first()?, *ranked.last()?)))
        .max_by(|a, b| (a.0.median - a.1.median).abs().total_cmp(&(b.0.median - b.1.median).abs()))
        .unwrap_or((cases[0][0], cases[0][0]));
    let unit = table.measure.name().1;
    let who = if leaders.is_empty() { "No clear first".to_owned() } else { leaders.join(", ") };
    Winner { who, how: format!("{} {unit}; {} has up to {}", shown(best.median), last.peer, shown(last.median)) }
}

fn ratio_text(measure: Measure, best: &Cell, next: &Cell) -> String {
    match advantage(measure, best.median, next.median) {
        Some(ratio) if ratio > 1.0 => format!(" ({})", factor(ratio)),
        _ => String::new(),
    }
}

fn typical(measure: Measure, won: &[&Vec<&Cell>]) -> String {
    let ratios: Vec<f64> =
        won.iter().filter_map(|ranked| advantage(measure, ranked[0].median, ranked[1].median)).collect();
    match crate::results::statistics::median(&ratios) {
        Some(ratio) => format!(", there by {} over the next (median)", factor(ratio)),
        None => String::new(),
    }
}

/// How many times as good the first value is as the second; above 1 is better.
pub(super) fn advantage(measure: Measure, first: f64, second: f64) -> Option<f64> {
    let ratio = match measure.better() {
        Better::Higher => first / second,
        Better::Lower => second / first,
    };
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// The brokers of a case with a valid run, the best first.
pub(super) fn ranked<'a>(table: &'a Table, case: &str) -> Vec<&'a Cell> {
    let mut cells: Vec<&Cell> = table.cells.iter().filter(|cell| cell.case == case && !cell.invalid).collect();
    cells.sort_by(|a, b| match table.measure.better() {
        Better::Higher => b.median.total_cmp(&a.median),
        Better::Lower => a.median.total_cmp(&b.median),
    });
    cells
}

/// Whether two numbers are the same to a reader: within one in a hundred.
pub(super) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.01 * a.abs().max(b.abs())
}

fn extent(results: &Results, out: &mut String) {
    let (cases, peers) = (results.case_names().len(), results.peer_names());
    let titles: Vec<String> = peers
        .iter()
        .map(|name| {
            let info = results.peers.get(name);
            let title = info.map_or(name.as_str(), |info| info.title.as_str());
            let version = info.map(|info| info.version.as_str()).unwrap_or_default();
            format!("{} {}", escape(title), escape(version))
        })
        .collect();
    put!(
        out,
        "<p>{} in {cases} {}, {} with each broker: {}. Latency counts from the time at which a message was to be sent; a lost message counts as \
         lost, and as a missed deadline where there is one. Medians of the repetitions, with the least and the greatest.</p>",
        if results.runs.len() == 1 { "One run".to_owned() } else { format!("{} runs", results.runs.len()) },
        if cases == 1 { "case" } else { "cases" },
        repetitions(results.settings.repeat).to_lowercase(),
        titles.join(", ")
    );
}
