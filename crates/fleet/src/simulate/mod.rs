//! The same decisions on a virtual clock, against a model of a fleet.
//!
//! A [`Trace`] says how many messages come at what time; a [`Model`] says what a resource can do and how long it takes
//! to get one; [`run`] lets one policy work through both, second by second, and answers a [`Report`]. [`generate`]
//! makes traces, [`taxi`] those of the study's data set, and [`svg`] draws what came out.

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

pub use model::{Model, ModelError, TierModel};
pub use report::{Action, Observations, ProfilePoint, Report};
pub use run::run;
pub use trace::{Row, Trace, TraceError};

#[cfg(test)]
mod tests;
