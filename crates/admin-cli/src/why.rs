//! `tidegate why`: why something happened to a client, a topic or an address, and who holds messages up.

mod pipeline;
mod slow;

use std::fmt::Write;

use clap::{Args as ClapArgs, Subcommand};
use tidegate_admin::{Story, StoryEvent, Subject as Asked, WhyRequest};

use crate::admin_client::{AdminArgs, is_of_several, json_line, name_unreachable, of_answering, time};
use tidegate_terminal::{Exit, complain, print_and_exit, report};
use tidegate_units::visible::shown;

const EXAMPLES: &str = "\
Examples:
  tidegate why client sensor-17            why it was refused or disconnected, and what to do
  tidegate why topic plant/7/temperature   what happened to messages of a topic
  tidegate why address 192.0.2.7           events of an address; a network such as 192.0.2.0/24, too
  tidegate why pipeline hot                why messages of a pipeline wait or are not delivered
  tidegate why slow                        which clients read slowly or do not acknowledge, the worst first
  tidegate why client dev --tenant acme    the same of one tenant; without it events of all tenants are shown
  tidegate why client sensor-17 --json     the same for scripts

Any node of a cluster answers for all of them. A broker remembers a bounded number of events since it was started (`[flight]` in the configuration). The log has older
ones: connections, refusals and denials at level info, dropped and delayed messages at level debug.
More: docs/why.md.";

/// The flags of `tidegate why`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Tell what happened to a client, a topic or an address, and why", after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    subject: Subject,
}

/// The subject of a question.
#[derive(Clone, Debug, Subcommand)]
enum Subject {
    /// A client id
    Client(Asking),
    /// A topic name
    Topic(Asking),
    /// An address or network
    Address(Asking),
    /// A pipeline of the hub
    Pipeline(About),
    /// Clients that read slowly or do not acknowledge, the worst first
    Slow(slow::Args),
    /// A name without its kind
    #[command(external_subcommand)]
    Nameless(Vec<String>),
}

/// The rest of the command.
#[derive(Clone, Debug, ClapArgs)]
struct About {
    /// Its name
    #[arg(value_parser = named)]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// The rest of a question about events.
#[derive(Clone, Debug, ClapArgs)]
struct Asking {
    #[command(flatten)]
    about: About,
    /// The tenant whose clients are meant; "" is the default one [default: all tenants]
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

/// Asks the broker and prints the story.
pub fn run(args: &Args) -> Exit {
    let (asking, subject) = match &args.subject {
        Subject::Client(asking) => (asking, Asked::Client(asking.about.name.clone())),
        Subject::Topic(asking) => (asking, Asked::Topic(asking.about.name.clone())),
        Subject::Address(asking) => (asking, Asked::Address(asking.about.name.clone())),
        Subject::Pipeline(about) => return pipeline::run(about),
        Subject::Slow(args) => return slow::run(args),
        Subject::Nameless(words) => {
            complain(nameless(words));
            return Exit::Usage;
        }
    };
    let (about, kind) = (&asking.about, subject.kind());
    match about.admin.send(&WhyRequest { subject, tenant: asking.tenant.clone() }) {
        Ok(answer) => {
            let text = if about.json { json_line(&answer) } else { story(kind, &about.name, &answer) };
            print_and_exit(&text, name_unreachable(&answer.unreachable))
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// The command to write instead of `why NAME`.
fn nameless(words: &[String]) -> String {
    let name = words.first().map(String::as_str).unwrap_or_default();
    let subject = match name {
        name if name.split('/').next().is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok()) => "address",
        name if name.contains('/') => "topic",
        _ => "client",
    };
    let name = shown(name);
    format!(
        "{name} may be a client, a topic or an address\nhint: did you mean `tidegate why {subject} {name}`? Others are `why client`, `why topic`, `why address` and `why slow`\n"
    )
}

/// A name without a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is empty")]
struct EmptyName;

fn named(text: &str) -> Result<String, EmptyName> {
    if text.is_empty() { Err(EmptyName) } else { Ok(text.to_owned()) }
}

/// The story for people: oldest first, so that the newest is at the end of the terminal.
fn story(kind: &str, name: &str, answer: &Story) -> String {
    let name = shown(name);
    if answer.events.is_empty() {
        return format!(
            "{}nothing is remembered about {kind} {name}: nothing happened lately, it never reached this broker, or its events \
             made room for newer ones (`[flight]`); the log has connections, refusals and denials, and with `log.level = \"debug\"` \
             also dropped and delayed messages\n",
            of_answering(&answer.unreachable)
        );
    }
    let mut out = format!("{kind} {name}, newest last\n");
    let several = is_of_several(&answer.nodes, &answer.unreachable);
    for event in &answer.events {
        add_event(&mut out, kind, event, several);
    }
    if answer.suppressed > 0 {
        let _ = writeln!(out, "\nand {} more since then that were only counted", answer.suppressed);
    }
    out
}

fn add_event(out: &mut String, kind: &str, event: &StoryEvent, several: bool) {
    let mut head = format!("{}  {}", time(event.at_ms), shown(&event.kind).replace('_', " "));
    let facts = [
        ("client", "client", &event.client),
        ("tenant", "tenant", &event.tenant),
        ("topic", "topic", &event.topic),
        ("from", "address", &event.address),
    ];
    for (word, of, value) in facts {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty() && of != kind) {
            let _ = write!(head, ", {word} {}", shown(value));
        }
    }
    if several {
        let _ = write!(head, ", on {}", shown(&event.node));
    }
    let _ = write!(out, "\n{head}\n");
    if let Some(reason) = &event.reason {
        let _ = writeln!(out, "    why: {} (reason {}, {})", reason.text, reason.number, reason.label);
    }
    if !event.detail.is_empty() {
        let _ = writeln!(out, "    what: {}", shown(&event.detail));
    }
    if let Some(reason) = event.reason.as_ref().filter(|reason| !reason.advice.is_empty()) {
        let _ = writeln!(out, "    do: {}", reason.advice.replace('`', ""));
    }
    match event.suppressed {
        0 => {}
        1 => out.push_str("    before it: 1 like it that was only counted\n"),
        more => {
            let _ = writeln!(out, "    before it: {more} like it that were only counted");
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_admin::ReasonEntry;

    use super::*;

    #[test]
    fn a_story_has_time_event_reason_and_remedy() {
        let connected = StoryEvent {
            kind: "connected".into(),
            node: "n1".into(),
            tenant: Some("acme".into()),
            client: Some("c".into()),
            address: Some("192.0.2.1".into()),
            detail: "MQTT 5.0, new session".into(),
            ..StoryEvent::default()
        };
        let reason = ReasonEntry {
            number: 24,
            label: "queue_full_disconnect".into(),
            text: "too slow".into(),
            advice: "Raise `a`.".into(),
            ..ReasonEntry::default()
        };
        let full = StoryEvent {
            kind: "queue_full".into(),
            node: "n1".into(),
            tenant: Some(String::new()),
            client: Some("c".into()),
            detail: "packet id 7 \u{1b}".into(),
            suppressed: 3,
            reason: Some(reason),
            ..StoryEvent::default()
        };
        let answer = Story {
            events: vec![connected, full],
            suppressed: 2,
            unreachable: vec!["n2".into()],
            nodes: vec!["n1".into()],
        };
        let lines: Vec<String> = story("client", "c", &answer).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "client c, newest last");
        assert!(lines[2].ends_with("  connected, tenant acme, from 192.0.2.1, on n1"), "{lines:?}");
        assert_eq!(lines[3], "    what: MQTT 5.0, new session");
        assert!(lines[5].ends_with("  queue full, on n1"), "{lines:?}");
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
    fn a_name_alone_gets_its_possible_kinds() {
        let hint = |name: &str| nameless(&[name.to_owned()]);
        assert!(hint("sensor-1").contains("did you mean `tidegate why client sensor-1`?"));
        assert!(hint("plant/7").contains("`tidegate why topic plant/7`"));
        assert!(hint("192.0.2.0/24").contains("`tidegate why address 192.0.2.0/24`"));
        assert_eq!(named(""), Err(EmptyName));
        assert_eq!(named("a"), Ok("a".to_owned()));
    }

    #[test]
    fn nothing_known_is_said_so() {
        let text = story("topic", "a\nb", &Story::default());
        assert!(text.starts_with("nothing is remembered about topic a\\nb"), "{text}");
    }
}
