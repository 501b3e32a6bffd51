//! Cases of a scenario that fall short of their base case: each of them changes one thing, so what
//! falls short is its doing.

use super::markup::{escape, put};
use crate::results::{Measure, Results, Table};
use tidegate_plot::shown;

/// Less than this part of the base falls short of it.
const PART: f64 = 0.95;
/// Measures that must not fall.
const MEASURES: [Measure; 2] = [Measure::Accepted, Measure::Delivered];

pub(super) fn write(results: &Results, out: &mut String) {
    let Some(base) = &results.scenario.base else { return };
    let tables = MEASURES.map(|measure| Table::of(results, measure));
    put!(out, "<h2 id=\"short\">What falls short of \u{201c}{}\u{201d}</h2><ul>", escape(base));
    for peer in results.peer_names() {
        let cases = results.case_names().into_iter().filter(|case| case != base);
        let found: Vec<String> = cases.filter_map(|case| shortfall(&tables, base, &case, &peer)).collect();
        let has_base = tables.iter().any(|table| table.get(base, &peer).is_some());
        let text = match (has_base, found.is_empty()) {
            (false, _) => "the case that the others are compared with was not measured".to_owned(),
            (true, true) => "nothing".to_owned(),
            (true, false) => found.join("; "),
        };
        put!(out, "<li>{}: {}.</li>", escape(&peer), escape(&text));
    }
    out.push_str("</ul>");
}

/// In words, when less than the usual part of clients or deliveries is left.
fn shortfall(tables: &[Table], base: &str, case: &str, peer: &str) -> Option<String> {
    let parts = tables.iter().filter_map(|table| {
        let (due, is) = (table.get(base, peer)?.median, table.get(case, peer)?.median);
        let (name, unit) = table.measure.name();
        (is < due * PART).then(|| format!("{} {} of {} {unit}", name.to_lowercase(), shown(is), shown(due)))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("{case} ({})", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Cell;

    #[test]
    fn a_case_with_clearly_fewer_clients_falls_short() {
        let cell = |case: &str, median: f64| Cell {
            case: case.to_owned(),
            peer: "p".to_owned(),
            values: vec![median],
            median,
            range: (median, median),
            invalid: false,
        };
        let cells = vec![cell("all", 6_000.0), cell("files", 4_080.0), cell("backlog", 5_990.0)];
        let tables = [Table { measure: Measure::Accepted, cells }];
        let said = shortfall(&tables, "all", "files", "p").unwrap();
        assert!(said.starts_with("files (connections accepted 4") && said.contains("clients"), "{said}");
        assert_eq!(shortfall(&tables, "all", "backlog", "p"), None);
    }
}
