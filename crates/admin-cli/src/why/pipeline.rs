//! `tidegate why pipeline`: why messages of a pipeline wait, or are not delivered.

use std::fmt::Write;

use serde_json::Value;
use tidegate_admin::GetHub;
use tidegate_terminal::{Exit, print_and_exit, report};

use super::About;
use crate::admin_client::{json_line, shown, time};

/// The sink that keeps messages for replays.
const ARCHIVE: &str = "@archive";

/// Asks the broker and prints the explanation.
pub(super) fn run(about: &About) -> Exit {
    let answer = match about.admin.send(&GetHub) {
        Ok(answer) => answer,
        Err(error) => {
            report(&error);
            return Exit::Failure;
        }
    };
    let Some(pipeline) = answer.get(&about.name) else {
        let names: Vec<String> = answer.as_object().into_iter().flatten().map(|(name, _)| shown(name)).collect();
        let known =
            if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
        report(&format_args!("no pipeline `{}` runs here: {known}", shown(&about.name)));
        return Exit::Failure;
    };
    let text = if about.json { json_line(pipeline) } else { explained(&about.name, pipeline) };
    print_and_exit(&text, Exit::Ok)
}

/// The explanation for people.
fn explained(name: &str, it: &Value) -> String {
    let number = |of: &Value, key: &str| of.get(key).and_then(Value::as_u64).unwrap_or_default();
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(shown);
    let state = text(it, "state").unwrap_or_default();
    let mut out = format!("pipeline {} is {state}", shown(name));
    let _ = write!(out, "{}", text(it, "node").map(|node| format!(" at {node}")).unwrap_or_default());
    let meaning = match state.as_str() {
        "running" => "it takes messages and brings them to its sinks",
        "retrying" => "a sink or the source is away: messages wait, and it tries again",
        "paused" => "an operator has paused it: `tidegate hub resume NAME` has it go on",
        "connecting" => "it has no connection to its source, or no subscription there",
        _ => "no member that answers runs it",
    };
    let _ = writeln!(out, ": {meaning}");
    if let Some(error) = text(it, "error") {
        let _ = writeln!(out, "    why: {error}");
    }
    let lag = it.get("lag_s").and_then(Value::as_f64).unwrap_or_default();
    let waiting = number(it, "waiting");
    let _ = writeln!(out, "    waiting: {waiting} messages, the oldest on its way for {lag:.1} s");
    for sink in it.get("sinks").and_then(Value::as_array).into_iter().flatten() {
        let name = text(sink, "name").unwrap_or_default();
        let sink_name = if name == ARCHIVE { "for replays (`keep`)" } else { &*name };
        let _ = write!(out, "    sink {sink_name}: {} records wait", number(sink, "waiting"));
        match (text(sink, "error"), sink.get("last_error").filter(|last| last.is_object())) {
            (Some(error), _) => {
                let _ = writeln!(out, "; it takes none: {error}");
            }
            (None, Some(last)) => {
                let why = text(last, "why").unwrap_or_default();
                let _ = writeln!(out, "; its last error was at {}: {why}", time(number(last, "at_ms")));
            }
            (None, None) => out.push_str("; it has had no error\n"),
        }
    }
    let (failed, letters) = (number(it, "failed"), number(it, "dead_letters"));
    let _ = writeln!(out, "    not delivered: {failed} messages, {letters} of them dead letters");
    let looped = number(it, "looped");
    if looped > 0 {
        let _ = writeln!(
            out,
            "    in a loop: {looped} of them had passed 16 pipelines, which publish to topics of each other"
        );
    }
    if let Some(last) = it.get("last_failure").filter(|last| last.is_object()) {
        let (topic, why) = (text(last, "topic").unwrap_or_default(), text(last, "why").unwrap_or_default());
        let _ = writeln!(out, "    the last at {}, topic {topic}: {why}", time(number(last, "at_ms")));
    }
    let dropped = number(it, "dropped");
    if dropped > 0 {
        let _ = writeln!(
            out,
            "    dropped: {dropped} messages: of QoS 0 without room, or removed from the bus after `keep_for`"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pipeline_is_explained_with_its_sinks_and_failures() {
        let it = json!({
            "state": "retrying", "error": "db: refused", "waiting": 7, "lag_s": 2.5, "failed": 2, "dead_letters": 1, "looped": 1,
            "dropped": 0, "last_failure": { "at_ms": 0, "topic": "t/a", "why": "not JSON", "dead_letter": true },
            "sinks": [
                { "name": "db", "waiting": 5, "error": "refused", "last_error": null },
                { "name": "web", "waiting": 0, "error": null, "last_error": { "at_ms": 0, "why": "503" } },
                { "name": "file", "waiting": 0, "error": null, "last_error": null }
            ],
        });
        let text = explained("hot", &it);
        for said in [
            "pipeline hot is retrying:",
            "why: db: refused",
            "waiting: 7 messages",
            "in a loop: 1 of them",
            "for 2.5 s",
            "sink db: 5 records wait; it takes none: refused",
            "web: 0 records wait; its last error was at 1970",
            "file: 0 records wait; it has had no error",
            "2 messages, 1 of them dead letters",
            "topic t/a: not JSON",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}
