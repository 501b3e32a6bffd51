//! Load: executes a plan, and returns exact numbers.
//!
//! A plan is data ([`LoadPlan`]), and so is its result ([`LoadOutcome`]): scenarios contain plans, reports contain
//! results, and worker processes receive plans and return results.

pub mod chance;
pub(crate) mod core;
mod directory;
mod error;
mod histogram;

pub(crate) mod judge;
pub(crate) mod ledger;
mod outcome;
pub mod plan;
mod processes;
mod progress;
pub(crate) mod record;
mod rounds;
mod run;
pub(crate) mod schedule;
pub(crate) mod shell;
#[cfg(test)]
mod simulated;
pub mod stamp;
pub mod template;
#[cfg(test)]
mod tests;
mod timers;
mod worker;

pub use error::LoadError;
pub use histogram::Histogram;
pub use outcome::{Connections, Counts, Generator, GroupOutcome, LoadOutcome, Losses, Second};
pub use plan::LoadPlan;
pub use progress::Progress;
pub use rounds::{Rounds, Step};
pub use run::{run, run_in_processes};
pub use stamp::STAMP_LEN;
pub use worker::work;
