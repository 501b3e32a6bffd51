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

use tidegate_document::{FileText, Finding};

use crate::error::{FilePosition, LoadError, RuleProblem, text};
use crate::limits::MAX_RULES;
use crate::rule::Rule;

use keys::rule;

/// Problems that are listed.
const MAX_PROBLEMS: usize = 20;
const RULE: &str = "rule";

/// Reads a file. An empty one has no rules, which denies everything.
pub(crate) fn parse(name: &Arc<str>, bytes: &[u8]) -> Result<Vec<Rule>, LoadError> {
    let file = FileText::new(&**name, text(name, bytes)?);
    let mut too_many = false;
    let rules = file.read(|keys| {
        too_many = keys.length(RULE) > MAX_RULES;
        if too_many {
            keys.leave(RULE);
            return None;
        }
        Some(keys.tables(RULE, |keys| rule(&file, name, keys)))
    });
    if too_many {
        return Err(LoadError::TooMany { file: Arc::clone(name) });
    }
    rules.map_err(|found| {
        let problem = |finding: &Finding| RuleProblem {
            place: FilePosition::of(name, &file.text, finding.offset),
            message: finding.message.clone(),
            fix: finding.hint.clone(),
        };
        LoadError::Wrong { problems: found.list().iter().take(MAX_PROBLEMS).map(problem).collect() }
    })
}
