//! A rule in one line, for people who ask which one decided.

use std::fmt::Write;

use crate::effect::Effect;
use crate::rule::{Actions, Name, Who};

/// Topics and names that are written out; more are counted.
const SHOWN: usize = 3;

/// `allow publish a/#, b (users alice)`.
pub(super) fn describe(effect: Effect, actions: Actions, topics: &[String], who: &Who) -> String {
    let mut text = match effect {
        Effect::Allow => "allow ".to_owned(),
        Effect::Deny => "deny ".to_owned(),
    };
    text.push_str(match (actions.publish, actions.subscribe, actions.receive) {
        (true, true, _) => "all",
        (true, false, true) => "publish and receive",
        (true, false, false) => "publish",
        (false, true, _) => "subscribe",
        (false, false, _) => "receive",
    });
    text.push(' ');
    text.push_str(&list(topics.iter().map(String::clone).collect()));
    let conditions = conditions(who);
    if !conditions.is_empty() {
        let _ = write!(text, " ({})", conditions.join("; "));
    }
    text
}

fn conditions(who: &Who) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |label: &str, names: Option<&[Name]>| {
        if let Some(names) = names {
            found.push(format!("{label} {}", list(names.iter().map(show).collect())));
        }
    };
    note("users", who.users.as_deref());
    if let Some(more) = &who.more {
        note("clients", more.clients.as_deref());
        note("listeners", more.listeners.as_deref());
        note("tenants", more.tenants.as_deref());
        note("certificate", more.certificates.as_deref());
        for (name, values) in &more.attributes {
            note(name, Some(values));
        }
    }
    match who.anonymous {
        Some(true) => found.push("no user name".to_owned()),
        Some(false) => found.push("any user name".to_owned()),
        None => {}
    }
    found
}

fn show(name: &Name) -> String {
    match name {
        Name::Exactly(name) => name.to_string(),
        Name::Beginning(beginning) => format!("{beginning}*"),
    }
}

fn list(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    let shown = items.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
