//! Our own file of rules, TOML.
//!
//! ```toml
//! [[rule]]
//! allow = true
//! users = ["alice", "team-*"]
//! actions = ["publish", "subscribe"]
//! topics = ["alice/#", "shared/${clientid}/+"]
//! ```
//!
//! | key | |
//! | --- | --- |
//! | `allow = true` or `effect = "allow"`, `"deny"` | the effect of the rule; required |
//! | `topics` | topic filters; `${clientid}`, `${username}`, `${tenant}`, `${listener}`, `${cert.cn}`, `${claim.NAME}`
//! are filled in; `"eq F"` is a subscription to exactly F |
//! | `actions` | `"publish"`, `"subscribe"` (and receive its messages), `"receive"` (receive its messages only),
//! `"all"` (the default) |
//! | `users`, `clients`, `listeners`, `tenants`, `certificate` | the clients that it holds for: one value or a list; a
//! `*` at the end of a value matches any rest |
//! | `anonymous` | for clients without a user name (`true`), or with one (`false`) |
//! | `attributes` | a table of attributes, each with a value or a list of accepted values |
//! | `retain` | `true`: only messages to be retained; `false`: only others; `"any"` (the default) |
//! | `qos` | a list of the QoS levels, or the highest one |
//!
//! Rules are asked in the order of the file, and the first that applies decides. A SUBSCRIBE is allowed by a rule whose
//! topic covers all that the filter can match, and denied by one whose topic has anything in common with it.

mod keys;
mod text;
mod values;

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::error::{FilePosition, LoadError, RuleProblem, text};
use crate::limits::MAX_RULES;
use crate::rule::Rule;

use keys::Draft;

/// Problems that are listed.
const MAX_PROBLEMS: usize = 20;

/// A problem, with the proposed correction and the bytes of the file that it concerns.
#[derive(Debug)]
struct Fault {
    offset: usize,
    message: String,
    fix: String,
}

impl Fault {
    fn new(offset: usize, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { offset, message: message.into(), fix: fix.into() }
    }
}

/// Reads a file. An empty one has no rules, which denies everything.
pub(crate) fn parse(file: &Arc<str>, bytes: &[u8]) -> Result<Vec<Rule>, LoadError> {
    let text = text(file, bytes)?;
    let mut faults = Vec::new();
    let rules = read(file, text, &mut faults)?;
    if faults.is_empty() {
        return Ok(rules);
    }
    faults.sort_by_key(|fault| fault.offset);
    faults.truncate(MAX_PROBLEMS);
    let problem = |fault: Fault| RuleProblem {
        place: FilePosition::of(file, text, fault.offset),
        message: fault.message,
        fix: fault.fix,
    };
    Err(LoadError::Wrong { problems: faults.into_iter().map(problem).collect() })
}

fn read(file: &Arc<str>, text: &str, faults: &mut Vec<Fault>) -> Result<Vec<Rule>, LoadError> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let offset = error.span().map_or(0, |span| span.start);
        faults.push(Fault::new(offset, error.message().trim(), "write TOML, with each rule below a line `[[rule]]`"));
    }
    let mut rules = Vec::new();
    if !errors.is_empty() {
        return Ok(rules);
    }
    for (name, value) in table.get_ref() {
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("rule", DeValue::Array(list)) => {
                if list.len() > MAX_RULES {
                    return Err(LoadError::TooMany { file: Arc::clone(file) });
                }
                for element in list {
                    match element.get_ref() {
                        DeValue::Table(table) => {
                            let place = FilePosition::of(file, text, element.span().start);
                            rules.extend(rule(&place, element.span().start, table, faults));
                        }
                        _ => faults.push(Fault::new(
                            element.span().start,
                            "a rule must be a table",
                            "write `[[rule]]` on a line of its own and the keys below it",
                        )),
                    }
                }
            }
            (other, _) => {
                let fix = "write `[[rule]]` on a line of its own and the keys below it";
                let message =
                    if other == "rule" { "`rule` must be a list".to_owned() } else { format!("unknown key `{other}`") };
                faults.push(Fault::new(name.span().start, message, fix));
            }
        }
    }
    Ok(rules)
}

/// Reads one rule; adds its problems to `faults`.
fn rule(place: &FilePosition, offset: usize, table: &DeTable<'_>, faults: &mut Vec<Fault>) -> Option<Rule> {
    let before = faults.len();
    let mut draft = Draft::default();
    for (name, value) in table {
        if let Err(fault) = draft.set(name, value) {
            faults.push(fault);
        }
    }
    if faults.len() > before {
        return None;
    }
    draft.finish(place, offset).map_err(|fault| faults.push(fault)).ok()
}
