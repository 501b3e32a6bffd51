//! `tidegate fleet explain`: why something was decided, with everything that was seen.

use std::fmt::Write;

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use tidegate_fleet::manage::History;

use super::history::PastError;
use super::lines::{percent, show_action, show_skew};
use crate::local::{FleetArgs, text_of};
use tidegate_admin_cli::admin_client::time;
use tidegate_terminal::{Exit, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate fleet explain         the last observation that led to an action
  tidegate fleet explain 1234    observation 1234

Observations are numbered in `tidegate fleet history`. More: docs/manager.md.";

/// The flags of `tidegate fleet explain`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Explain a decision: the observation, the rule, the action, and the time of each step", after_help = EXAMPLES)]
pub struct Args {
    /// The observation [default: the last one that led to an action]
    observation: Option<u64>,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Explains an observation.
pub(super) fn run(args: &Args) -> Exit {
    match explained(args) {
        Ok(value) if args.json => print_and_exit(&format!("{value}\n"), Exit::Ok),
        Ok(value) => print_and_exit(&shown(&value), Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// The observation, and the actions that came of it as far as they have ended.
fn explained(args: &Args) -> Result<Value, PastError> {
    let place = args.fleet.find()?;
    let acted = |entry: &Value| {
        let levels = entry["levels"].as_object();
        levels.is_some_and(|levels| {
            levels.values().any(|level| {
                text_of(&level["did"]).starts_with("action ") && !text_of(&level["did"]).ends_with("under way")
            })
        })
    };
    let wanted = |entry: &Value| match args.observation {
        Some(number) => entry["kind"] == "observation" && entry["observation"] == number,
        None => entry["kind"] == "observation" && acted(entry),
    };
    let newest = |wanted: &dyn Fn(&Value) -> bool, count| History::newest(&place.directory, count, wanted);
    let Some(observation) = newest(&wanted, 1)?.pop() else {
        return Err(args.observation.map_or(PastError::NoAction, PastError::NoObservation));
    };
    let number = observation["observation"].clone();
    let actions = newest(&|entry| entry["kind"] == "action" && entry["observation"] == number, 16)?;
    Ok(json!({"observation": observation, "actions": actions}))
}

fn shown(value: &Value) -> String {
    let observation = &value["observation"];
    let at = time(observation["at_ms"].as_u64().unwrap_or_default());
    let mut text = format!("observation {} at {at}\n", observation["observation"]);
    for (name, level) in observation["levels"].as_object().into_iter().flatten() {
        show_level(&mut text, name, level);
    }
    for action in value["actions"].as_array().into_iter().flatten() {
        show_action(&mut text, action);
    }
    text
}

/// A number with at most two digits after the point.
fn number(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |number| ((number * 100.0).round() / 100.0).to_string())
}

/// Bytes in MiB.
fn memory(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
}

/// A level as it was observed, with the decision and the action; also for `plan`.
pub(super) fn show_level(text: &mut String, name: &str, level: &Value) {
    if level.is_null() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}s: not observed yet");
        return;
    }
    let seen = &level["seen"];
    let _ = writeln!(
        text,
        "{name}s: saw {} serving, {} pending, {} leaving",
        seen["serving"], seen["pending"], seen["leaving"]
    );
    for member in seen["members"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "  {:<18} cpu {} of {} cores, {} messages/s, {} waiting, {} dropped/s, {} of memory",
            text_of(&member["name"]),
            percent(&member["cpu"]),
            number(&member["cores"]),
            number(&member["rate"]),
            text_of(&member["queued"]),
            number(&member["drops"]),
            memory(&member["memory"])
        );
    }
    let count =
        level["count"].as_u64().filter(|count| *count > 0).map(|count| format!(" by {count}")).unwrap_or_default();
    let _ = writeln!(
        text,
        "  load {}, so {}{count}: {}",
        percent(&level["load"]),
        text_of(&level["wish"]),
        text_of(&level["reason"])
    );
    show_skew(text, &level["skew"]);
    let details = &level["details"];
    if !details.is_null() {
        let _ = writeln!(
            text,
            "  policy {}, rule {}, threshold {}, wanted {}",
            text_of(&details["policy"]),
            text_of(&details["rule"]),
            number(&details["threshold"]),
            text_of(&details["wanted"])
        );
        for held in details["held_back"].as_array().into_iter().flatten() {
            let _ = writeln!(text, "  held back by {}: {}", text_of(&held["cause"]), text_of(&held["text"]));
        }
    }
    let _ = writeln!(text, "  did {}", text_of(&level["did"]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_unknown_ones_are_dashes() {
        let member =
            json!({"name": "broker-1", "cpu": 0.001_963_149_306, "cores": 0.25, "rate": 10.333_333, "queued": null});
        let seen = json!({"serving": 1, "pending": 0, "leaving": 0, "members": [member]});
        let details = json!({"policy": "default", "rule": "within", "threshold": null, "wanted": 1});
        let level = json!({
            "seen": seen, "load": null, "wish": "hold", "count": 0, "reason": "r", "details": details, "did": "nothing",
        });
        let mut text = String::new();
        show_level(&mut text, "broker", &level);
        assert!(text.contains("cpu 0% of 0.25 cores, 10.33 messages/s, - waiting"), "{text}");
        assert!(text.contains("load -, so hold") && text.contains("threshold -, wanted 1"), "{text}");
        assert!(!text.contains("null"), "{text}");
    }
}
