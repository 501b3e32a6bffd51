//! From the observations of a level to a decision, with its reason.
//!
//! A [`Policy`] proposes. A [`Decider`] applies the rules for all policies (limits of the [`Sla`], one action at a
//! time, cool-downs, missing signals) and returns a [`Decision`]. There is one decider per level; it keeps its policy's
//! state. The module reads no clock: each [`LevelObservation`] has its time.

mod brokel;
mod change;
mod consecutive;
mod decider;
mod decision;
mod explanation;
mod holt_winters;
mod hpa;
mod latency;
mod live;
mod memory;
mod observation;
mod peaks;
mod policies;
mod policy;
mod policy_name;
mod settings;
mod skew;
mod sla;
mod steady;
mod threshold;
mod wait;

#[cfg(test)]
mod tests;

pub use change::Change;
pub use decider::Decider;
pub use decision::Decision;
pub use explanation::{Explanation, HeldBack, Rule};
pub use memory::MemoryError;
pub use observation::{Level, LevelObservation};
pub use policy::{Guards, Policy, Proposal};
pub use policy_name::{PolicyName, UnknownPolicy};
pub use settings::{Settings, SettingsError};
pub use skew::Hottest;
pub use sla::{Bounds, Sla, SlaError};
pub use wait::Wait;
