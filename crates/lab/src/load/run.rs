//! A plan is carried out.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::LoadError;
use super::judge::judge;
use super::outcome::LoadOutcome;
use super::plan::{LoadPlan, PlanError};
use super::progress::Progress;
use super::shell::{Alone, Clock, Shell};
use super::{directory, processes};

/// Carries out a plan in this process, on this thread, and returns when it has ended. `stop` ends it early.
///
/// # Errors
/// If the plan cannot be carried out, or the system refuses a resource of the run. Refusals of the broker are part of
/// the outcome.
pub fn run(plan: &LoadPlan, progress: &mut dyn Progress, stop: &AtomicBool) -> Result<LoadOutcome, LoadError> {
    plan.validate()?;
    if plan.workers() > 1 {
        let problem = "where there are no worker processes, `processes` is 1 and no group has `limits`";
        return Err(PlanError::Value(problem).into());
    }
    let mut alone = Alone { progress, stop };
    let outcome = Shell::new(plan.clone(), 0, Clock::start(), &mut alone)?.run()?;
    Ok(judged(outcome))
}

/// Carries out a plan in as many processes as it asks for; `command` starts the process with a number, which is to call
/// [`work`](super::work) on its standard input and output. A plan for one process is carried out in this one.
///
/// # Errors
/// As [`run`], and when a worker fails.
pub fn run_in_processes(
    plan: &LoadPlan,
    mut command: impl FnMut(u32) -> Command,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<LoadOutcome, LoadError> {
    if plan.workers() == 1 {
        return run(plan, progress, stop);
    }
    plan.validate()?;
    directory::Directory::new(plan)?;
    let links = (0..plan.workers()).map(|worker| processes::start(worker, &mut command(worker)));
    let links = links.collect::<Result<Vec<_>, _>>()?;
    processes::run(plan, links, progress, stop).map(judged)
}

fn judged(mut outcome: LoadOutcome) -> LoadOutcome {
    outcome.generator.invalid = judge(&outcome);
    outcome
}
