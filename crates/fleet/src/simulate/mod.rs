//! The same decisions on a virtual clock, against a model of a fleet.
//!
//! A [`Trace`] has the number of messages over time. A [`Model`] has the capacity of a resource and the time to get
//! one. [`run`] simulates one policy on both, second by second, and returns a [`Report`]. [`generate`] makes traces,
//! [`taxi`] reads the traces of the study's data set, and [`svg`] draws the results.

#![expect(clippy::cast_precision_loss, reason = "the seconds and counts of a simulation are far below 2^52")]

pub mod generate;
mod judge;
mod model;
mod random;
mod report;
mod run;
pub mod suite;
pub mod svg;
pub mod taxi;

mod tier;
mod trace;
pub mod workloads;

pub use model::{Model, ModelError, TierModel};
pub use report::{Action, Observations, ProfilePoint, Report};
pub use run::run;
pub use trace::{Row, Trace, TraceError};

#[cfg(test)]
mod tests;
