//! Access control: rules, their compiled form, and the explanation of a decision.
//!
//! Rules come from Mosquitto's acl file ([`mosquitto`]) and from a rules file of our own ([`rules_file`]). Both become
//! one ordered list, [`Rules`], in which the first rule that applies decides. A [`Compiler`] makes a [`Compiled`] view
//! for each client when it connects: only the rules that can apply to it, with its names filled in. A view decides in
//! nanoseconds and reads no file, clock or random number. [`Rules::explain`] answers the same question slowly, with its
//! reason.
//!
//! Guarantees that no rule can change:
//!
//! - A value with `+`, `#`, `/` or U+0000, an empty value and a missing one never widen a rule. An allowing rule with
//!   such a value allows no topic; a denying one denies all topics that it could mean (CVE-2017-7650).
//! - A subscription is allowed only if all topics of its filter are allowed. Mosquitto's acl file differs: there each
//!   message is checked instead ([`Decision::filtered`]).
//! - Where rules exist, a request that no rule allows is denied.

mod class;
mod compile;
mod effect;
mod error;
mod explain;
mod filter;
mod granted;
mod grants;
mod holds;
mod limits;
pub mod mosquitto;
mod own;
mod pattern;
mod request;
mod rule;
mod rules;
pub mod rules_file;
mod subject;
mod subscription;
mod trie;

pub use compile::{Compiled, Compiler};
pub use effect::{Effect, RuleId};
pub use error::{FilePosition, LoadError, RuleProblem, Warning};
pub use explain::{Explanation, PassedOver, RuleResult};
pub use filter::covers;
pub use grants::{GrantedAction, GrantedRule, Grants};
pub use limits::{
    MAX_FILE_BYTES, MAX_PATTERN_BYTES, MAX_RULES, MAX_TOPICS_PER_RULE, MAX_VALUE_BYTES, MAX_VALUES_PER_CONDITION,
};
pub use request::{DecidedBy, Decision, Request};
pub use rule::RuleRef;
pub use rules::{Rules, RulesBuilder};
pub use subject::Subject;
pub use tidegate_mqtt::topic::overlaps;
