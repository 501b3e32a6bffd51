//! A plan is carried out.

use std::sync::atomic::AtomicBool;

use super::error::LoadError;
use super::judge::judge;
use super::outcome::LoadOutcome;
use super::plan::{LoadPlan, PlanError};
use super::progress::Progress;
use super::shell::{Alone, Clock, Shell};

/// Carries out a plan, and comes back when it has ended. `stop` ends it early.
///
/// # Errors
/// When the plan cannot be carried out, or the system refuses what a run needs. What the broker refuses is part of the
/// outcome.
pub fn run(plan: &LoadPlan, progress: &mut dyn Progress, stop: &AtomicBool) -> Result<LoadOutcome, LoadError> {
    plan.validate()?;
    if plan.processes > 1 {
        return Err(PlanError::Value("`processes` is 1 here").into());
    }
    let mut alone = Alone { progress, stop };
    let mut outcome = Shell::new(plan.clone(), 0, Clock::start(), &mut alone)?.run()?;
    outcome.generator.invalid = judge(&outcome);
    Ok(outcome)
}
