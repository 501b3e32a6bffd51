//! `tidegate why`: why something happened to a client, a topic or an address, and who holds messages up.

mod slow;

use std::fmt::Write;

use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;

use crate::admin_client::{AdminArgs, escape, shown, time};
use tidegate_terminal::{Exit, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate why client sensor-17            why it was refused or disconnected, and what to do
  tidegate why topic plant/7/temperature   what happened to messages of a topic
  tidegate why address 192.0.2.7           what came from an address; a network such as 192.0.2.0/24, too
  tidegate why slow                        which clients read slowly or do not acknowledge, the worst first
  tidegate why client sensor-17 --json     the same for scripts

The broker remembers a bounded number of events since it was started (`[flight]` in the configuration); the log has them all.
More: docs/why.md.";

/// The flags of `tidegate why`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Tell what happened to a client, a topic or an address, and why", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    subject: Subject,
}

/// Whom one wants to know about.
#[derive(Clone, Debug, Subcommand)]
enum Subject {
    /// A client id
    Client(About),
    /// A topic name
    Topic(About),
    /// An address or network
    Address(About),
    /// Clients that read slowly or do not acknowledge, the worst first
    Slow(slow::Args),
}

/// The rest of the command.
#[derive(Clone, Debug, ClapArgs)]
struct About {
    /// Its name
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Asks the broker and prints the story.
pub(crate) fn run(args: &Args) -> Exit {
    let (kind, about) = match &args.subject {
        Subject::Client(about) => ("client", about),
        Subject::Topic(about) => ("topic", about),
        Subject::Address(about) => ("address", about),
        Subject::Slow(args) => return slow::run(args),
    };
    let path = format!("/api/v1/why?{kind}={}", escape(&about.name));
    match about.admin.request("GET", &path, None) {
        Ok(answer) if about.json => print_and_exit(&format!("{answer}\n"), Exit::Ok),
        Ok(answer) => print_and_exit(&story(kind, &about.name, &answer), Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// The story for people: oldest first, so that the newest stands where the eye is.
fn story(kind: &str, name: &str, answer: &Value) -> String {
    let events = answer.get("events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let name = shown(name);
    if events.is_empty() {
        return format!(
            "nothing is remembered about {kind} {name}: nothing happened lately, it never reached this broker, or its events \
             made room for newer ones (`[flight]`); the log has them all\n"
        );
    }
    let mut out = format!("{kind} {name}, newest last\n");
    for event in events {
        add_event(&mut out, kind, event);
    }
    match number(answer, "suppressed") {
        0 => {}
        more => {
            let _ = writeln!(out, "\nand {more} more since then that were only counted");
        }
    }
    out
}

fn add_event(out: &mut String, kind: &str, event: &Value) {
    let mut head = format!("{}  {}", time(number(event, "at_ms")), text(event, "kind").replace('_', " "));
    for (word, key) in [("client", "client"), ("topic", "topic"), ("from", "address")] {
        let value = text(event, key);
        if !value.is_empty() && key != kind {
            let _ = write!(head, ", {word} {}", shown(value));
        }
    }
    let _ = write!(out, "\n{head}\n");
    let detail = text(event, "detail");
    if let Some(reason) = event.get("reason").filter(|reason| !reason.is_null()) {
        let (number, label, why) = (number(reason, "number"), text(reason, "label"), text(reason, "text"));
        let _ = writeln!(out, "    why: {why} (reason {number}, {label})");
    }
    if !detail.is_empty() {
        let _ = writeln!(out, "    what: {}", shown(detail));
    }
    let advice = event.get("reason").map_or("", |reason| text(reason, "advice"));
    if !advice.is_empty() {
        let _ = writeln!(out, "    do: {}", advice.replace('`', ""));
    }
    match number(event, "suppressed") {
        0 => {}
        1 => out.push_str("    before it: 1 like it that was only counted\n"),
        more => {
            let _ = writeln!(out, "    before it: {more} like it that were only counted");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_story_says_when_what_why_and_what_to_do() {
        let answer = json!({
            "events": [
                { "at_ms": 0, "kind": "connected", "client": "c", "address": "192.0.2.1", "detail": "MQTT 5.0, new session",
                  "reason": null, "topic": null, "suppressed": 0 },
                { "at_ms": 0, "kind": "queue_full", "client": "c", "detail": "packet id 7 \u{1b}", "suppressed": 3,
                  "reason": { "number": 24, "label": "queue_full_disconnect", "text": "too slow", "advice": "Raise `a`." } },
            ],
            "suppressed": 2,
        });
        let lines: Vec<String> = story("client", "c", &answer).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "client c, newest last");
        assert!(lines[2].ends_with("  connected, from 192.0.2.1"), "{lines:?}");
        assert_eq!(lines[3], "    what: MQTT 5.0, new session");
        assert!(lines[5].ends_with("  queue full"), "{lines:?}");
        assert_eq!(
            lines[6..],
            [
                "    why: too slow (reason 24, queue_full_disconnect)",
                "    what: packet id 7 \\u{1b}",
                "    do: Raise a.",
                "    before it: 3 like it that were only counted",
                "",
                "and 2 more since then that were only counted",
            ]
        );
    }

    #[test]
    fn nothing_known_is_said_so() {
        let text = story("topic", "a\nb", &json!({ "events": [], "suppressed": 0 }));
        assert!(text.starts_with("nothing is remembered about topic a\\nb"), "{text}");
    }
}
