//! Load: a plan goes in, exact numbers come out.
//!
//! A plan is data ([`LoadPlan`]), and so is what came of it ([`LoadOutcome`]): scenarios hold the one, reports the other,
//! and worker processes are handed the first and hand back the second.

pub mod chance;
mod error;
mod histogram;
mod outcome;
pub mod plan;
mod progress;
pub mod stamp;
pub mod template;

pub use error::LoadError;
pub use histogram::Histogram;
pub use outcome::{Connections, Counts, Generator, GroupOutcome, LoadOutcome, Losses, Second};
pub use plan::LoadPlan;
pub use progress::Progress;
pub use stamp::STAMP_LEN;

/// Placeholder until the engine lands.
pub fn run(_: &LoadPlan, _: &mut dyn Progress, _: &std::sync::atomic::AtomicBool) -> Result<LoadOutcome, LoadError> {
    Ok(LoadOutcome::default())
}
