//! `tidegate why pipeline`: why messages of a pipeline wait, or are not delivered.

use std::fmt::Write;

use tidegate_admin::{GetHub, PipelineReport};
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
        let names: Vec<String> = answer.keys().map(|name| shown(name)).collect();
        let known =
            if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
        report(&format_args!("no pipeline `{}` runs here: {known}", shown(&about.name)));
        return Exit::Failure;
    };
    let text = if about.json { json_line(pipeline) } else { explained(&about.name, pipeline) };
    print_and_exit(&text, Exit::Ok)
}

/// The explanation for people.
fn explained(name: &str, it: &PipelineReport) -> String {
    let mut out = format!("pipeline {} is {}", shown(name), shown(&it.state));
    if let Some(node) = &it.node {
        let _ = write!(out, " at {}", shown(node));
    }
    let meaning = match it.state.as_str() {
        "running" => "it takes messages and brings them to its sinks",
        "retrying" => "a sink or the source is away: messages wait, and it tries again",
        "paused" => "an operator has paused it; `tidegate hub resume NAME` continues it",
        "connecting" => "it has no connection to its source, or no subscription there",
        _ => "no member that answers runs it",
    };
    let _ = writeln!(out, ": {meaning}");
    if let Some(error) = &it.error {
        let _ = writeln!(out, "    why: {}", shown(error));
    }
    let _ = writeln!(out, "    waiting: {} messages, the oldest on its way for {:.1} s", it.waiting, it.lag_s);
    for sink in &it.sinks {
        let name = if sink.name == ARCHIVE { "for replays (`keep`)".to_owned() } else { shown(&sink.name) };
        let _ = write!(out, "    sink {name}: {} records wait", sink.waiting);
        match (&sink.error, &sink.last_error) {
            (Some(error), _) => {
                let _ = writeln!(out, "; it takes none: {}", shown(error));
            }
            (None, Some(last)) => {
                let _ = writeln!(out, "; its last error was at {}: {}", time(last.at_ms), shown(&last.why));
            }
            (None, None) => out.push_str("; it has had no error\n"),
        }
    }
    let _ = writeln!(
        out,
        "    not delivered: {} messages, {} of them dead letters",
        it.counts.failed, it.counts.dead_letters
    );
    if it.counts.looped > 0 {
        let looped = it.counts.looped;
        let _ = writeln!(
            out,
            "    in a loop: {looped} of them had passed 16 pipelines, which publish to topics of each other"
        );
    }
    if let Some(last) = &it.last_failure {
        let (at, topic, why) = (time(last.at_ms), shown(&last.topic), shown(&last.why));
        let _ = writeln!(out, "    the last at {at}, topic {topic}: {why}");
    }
    if it.counts.dropped > 0 {
        let dropped = it.counts.dropped;
        let _ = writeln!(
            out,
            "    dropped: {dropped} messages: its queue was full (`max_bytes`, `on_full`), they expired, a bus removed them, or `from` has not their topics"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_pipeline_is_explained_with_its_sinks_and_failures() {
        let it = json!({
            "state": "retrying", "error": "db: refused", "waiting": 7, "lag_s": 2.5, "failed": 2, "dead_letters": 1, "looped": 1,
            "dropped": 3, "last_failure": { "at_ms": 0, "topic": "t/a", "why": "not JSON", "dead_letter": true },
            "sinks": [
                { "name": "db", "waiting": 5, "error": "refused", "last_error": null },
                { "name": "web", "waiting": 0, "error": null, "last_error": { "at_ms": 0, "why": "503" } },
                { "name": "file", "waiting": 0, "error": null, "last_error": null }
            ],
        });
        let text = explained("hot", &from_value(it).unwrap());
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
            "dropped: 3 messages: its queue was full",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}
