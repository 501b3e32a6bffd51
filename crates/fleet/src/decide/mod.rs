//! From what is seen of a level to what is done about it, with the reason.
//!
//! A [`Policy`] proposes; a [`Decider`] holds a proposal against what always applies (limits of the [`Sla`], one action
//! at a time, cool-downs, missing signals) and answers a [`Decision`]. One decider per level; it keeps what its policy
//! remembers. Nothing here knows a clock: each [`LevelObservation`] says when it was made.

mod brokel;
mod consecutive;
mod decider;
mod decision;
mod explanation;
mod holt_winters;
mod hpa;
mod live;
mod memory;
mod observation;
mod policy;
mod policy_name;
mod settings;
mod sla;
mod steady;
mod threshold;

#[cfg(test)]
mod tests;

pub use decider::Decider;
pub use decision::{Change, Decision};
pub use explanation::{Explanation, HeldBack, Rule};
pub use memory::MemoryError;
pub use observation::{Level, LevelObservation};
pub use policy::{Guards, Policy, Proposal, Wait};
pub use policy_name::{PolicyName, UnknownPolicy};
pub use settings::{Settings, SettingsError};
pub use sla::{Bounds, Sla, SlaError};
