//! Who may do what: rules, compiled, and the explanation of which one decided.
//!
//! Rules come from Mosquitto's acl file ([`mosquitto`]) and from a rules file of our own ([`rules_file`]); both become
//! one ordered list, [`Rules`], in which the first rule that applies decides. A [`Compiler`] makes a [`Compiled`] view
//! of it for each client when it connects: only the rules that can apply to it, with its names filled in. That view
//! answers in nanoseconds, without reading a file, a clock or anything random. [`Rules::explain`] answers the same
//! question slowly and says why.
//!
//! What holds whatever the rules say:
//!
//! - A value with `+`, `#`, `/` or U+0000, an empty value and a missing one never widen a rule: an allowing rule with
//!   such a value in it allows nothing, a denying one denies all that it could have meant (CVE-2017-7650).
//! - A filter may be subscribed to only if what it can match is allowed, not if some of it is; except under Mosquitto's
//!   acl file, which is asked for each message instead ([`Decision::filtered`]).
//! - No rule, no right: where there are rules, what none of them allows is denied.

mod class;
mod compile;
mod error;
mod explain;
mod filter;
mod grants;
mod limits;
pub mod mosquitto;
mod pattern;
mod request;
mod rule;
mod rules;
pub mod rules_file;
mod subject;
mod subscription;
mod trie;

pub use compile::{Compiled, Compiler};
pub use error::{LoadError, Place, RuleProblem};
pub use explain::{Explanation, PassedOver, Verdict};
pub use filter::covers;
pub use grants::{GrantedAction, GrantedRule, Grants};
pub use limits::{
    MAX_FILE_BYTES, MAX_PATTERN_BYTES, MAX_RULES, MAX_TOPICS_PER_RULE, MAX_VALUE_BYTES, MAX_VALUES_PER_CONDITION,
};
pub use request::{DecidedBy, Decision, Request};
pub use rule::{Effect, RuleId, RuleRef};
pub use rules::{Rules, RulesBuilder, Warning};
pub use subject::Subject;
pub use tidegate_mqtt::topic::overlaps;
