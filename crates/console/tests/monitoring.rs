//! The board and the alarms in `deploy/monitoring` use existing metrics.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::path::Path;

use tidegate_console::metrics::all;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The queries of a board.
fn queries(board: &serde_json::Value) -> Vec<String> {
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Each metric of a query with the labels that it is narrowed down by.
fn metrics(query: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for prefix in ["mqtt_", "tidegate_", "process_"] {
        for (at, _) in query.match_indices(prefix) {
            if query[..at].ends_with(is_name) {
                continue;
            }
            let end = query[at..].find(|c| !is_name(c)).map_or(query.len(), |length| at + length);
            let labels =
                query[end..].strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
            let labels =
                labels.split(',').filter_map(|label| label.split(['=', '!']).next()).filter(|label| !label.is_empty());
            found.push((query[at..end].to_owned(), labels.map(str::to_owned).collect()));
        }
    }
    found
}

/// The series of a fleet's manager, which writes its page without the table of metrics.
fn manager_series() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fleet/src/manage/metrics.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let names = text.split('"').filter(|part| part.starts_with("tidegate_"));
    let whole = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
    whole.map(str::to_owned).collect()
}

/// The labels of these series.
const MANAGER_LABELS: [&str; 5] = ["level", "state", "action", "outcome", "step"];

/// The name of a metric without the end that a histogram or summary adds.
fn family(name: &str) -> &str {
    ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// Metrics of a query that do not exist.
fn unknown(query: &str) -> Vec<String> {
    let grouped =
        query.split(" by (").skip(1).filter_map(|rest| rest.split(')').next()).flat_map(|list| list.split(", "));
    let grouped: Vec<String> = grouped.map(str::to_owned).collect();
    let mut wrong = Vec::new();
    let mut labels: BTreeSet<&str> = ["instance", "job", "le"].into();
    let of_manager = manager_series();
    for (name, narrowed) in metrics(query) {
        let known = all().find(|metric| metric.name == name || metric.name == family(&name));
        let is_of_manager = of_manager.contains(family(&name));
        if known.is_none() && !is_of_manager {
            wrong.push(name);
            continue;
        }
        labels.extend(known.iter().flat_map(|metric| metric.labels.iter().copied()));
        labels.extend(MANAGER_LABELS.iter().filter(|_| is_of_manager));
        wrong.extend(narrowed.into_iter().filter(|label| !labels.contains(label.as_str())));
    }
    wrong.extend(grouped.into_iter().filter(|label| !labels.contains(label.as_str())));
    wrong
}

#[test]
fn the_board_asks_for_metrics_and_labels_that_are_there() {
    let board: serde_json::Value = serde_json::from_str(&file("grafana.json")).unwrap();
    let queries = queries(&board);
    assert!(queries.len() > 20, "{}", queries.len());
    for query in queries {
        assert!(!metrics(&query).is_empty(), "{query}");
        assert_eq!(unknown(&query), Vec::<String>::new(), "{query}");
    }
}

#[test]
fn the_board_shows_each_series_of_a_fleet() {
    let board: serde_json::Value = serde_json::from_str(&file("grafana.json")).unwrap();
    let shown: BTreeSet<String> = queries(&board).iter().flat_map(|query| metrics(query)).map(|it| it.0).collect();
    let shown: BTreeSet<&str> = shown.iter().map(|name| family(name)).collect();
    let of_manager = manager_series();
    assert!(of_manager.len() > 10, "{of_manager:?}");
    let of_orchestrator = all().map(|metric| metric.name).filter(|name| name.starts_with("tidegate_fleet_"));
    let missing: Vec<&str> =
        of_manager.iter().map(String::as_str).chain(of_orchestrator).filter(|name| !shown.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn the_alarms_ask_for_metrics_and_labels_that_are_there() {
    let text = file("alerts.yml");
    let queries: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert!(queries.len() > 5 && queries.len() == text.matches("- alert: ").count(), "{}", queries.len());
    for query in queries {
        assert_eq!(unknown(query), Vec::<String>::new(), "{query}");
    }
}

#[test]
fn a_name_or_label_that_is_not_there_is_found() {
    for (query, wrong) in [
        ("rate(mqtt_message_total[5m])", "mqtt_message_total"),
        (r#"mqtt_sessions{status="x"}"#, "status"),
        ("sum by (direction, kind) (mqtt_messages_total)", "kind"),
    ] {
        assert_eq!(unknown(query), [wrong], "{query}");
    }
}
