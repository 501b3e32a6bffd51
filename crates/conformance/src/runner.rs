//! Running the chosen cases, many at a time, and gathering their outcomes.

use crate::case::Case;
use crate::journal::Journal;
use crate::options::Options;
use crate::outcome::Stop;
use crate::probe::Unreachable;
use crate::registry::cases;
use crate::report::{CaseOutcome, Report, Result};
use crate::scenario::Scenario;
use crate::target::Target;
use crate::version::Version;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One case in one version. The number makes client identifiers unique.
#[derive(Clone, Copy, Debug)]
struct Job {
    case: &'static Case,
    version: Version,
    number: usize,
}

/// Runs the cases that the options choose against the broker that they name.
///
/// # Errors
/// When the broker accepts a connection of no version of MQTT.
pub fn run(options: &Options) -> std::result::Result<Report, Unreachable> {
    run_with(options, &|_| {})
}

/// The same, and reports each outcome at once.
///
/// # Errors
/// When the broker accepts a connection of no version of MQTT.
pub fn run_with(options: &Options, told: &(dyn Fn(&Result) + Sync)) -> std::result::Result<Report, Unreachable> {
    let started = Instant::now();
    let target = Target::probe(options, run_letters())?;
    let (alone, together): (Vec<_>, Vec<_>) = chosen(options).into_iter().partition(|job| job.case.alone);
    let mut results = run_jobs(&target, together, options.jobs.max(1), told);
    results.extend(run_jobs(&target, alone, 1, told));
    results.sort_by_key(|result| (result.case.name, result.version));
    Ok(Report { broker: options.broker.clone(), results, duration: started.elapsed() })
}

/// The chosen cases and versions; cases that wait for time to pass come first.
fn chosen(options: &Options) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (number, case) in (1..).zip(cases()) {
        let only = &options.only;
        let wanted = only.is_empty() || only.iter().any(|pattern| case.is_chosen_by(pattern));
        if !wanted || options.except.iter().any(|pattern| case.is_chosen_by(pattern)) {
            continue;
        }
        for version in case.versions {
            if options.versions.is_empty() || options.versions.contains(version) {
                jobs.push(Job { case, version: *version, number });
            }
        }
    }
    jobs.sort_by_key(|job| !job.case.slow);
    jobs
}

fn run_jobs(target: &Target, jobs: Vec<Job>, workers: usize, told: &(dyn Fn(&Result) + Sync)) -> Vec<Result> {
    let queue = Mutex::new(VecDeque::from(jobs));
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(job) = job else { break };
                    let result = run_job(target, job);
                    told(&result);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_job(target: &Target, job: Job) -> Result {
    let started = Instant::now();
    let outcome = if !target.capabilities.versions.contains(&job.version) {
        CaseOutcome::Skipped(format!("the broker does not speak MQTT {}", job.version))
    } else if let Some(absence) = target.lacks(job.case.needs) {
        CaseOutcome::Skipped(absence.to_owned())
    } else {
        play(target, job)
    };
    Result { case: job.case, version: job.version, outcome, duration: started.elapsed() }
}

#[expect(clippy::disallowed_methods, reason = "a suite continues with its next case, and serves no client")]
fn play(target: &Target, job: Job) -> CaseOutcome {
    let journal = Rc::new(Journal::new());
    let scenario = Scenario::new(target, job.number, job.version, Rc::clone(&journal));
    // A panic is a defect of the suite; it must not take the outcomes of the other cases with it.
    let outcome = catch_unwind(AssertUnwindSafe(|| (job.case.run)(&scenario)));
    let conversation = journal.render();
    scenario.clean_up();
    match outcome {
        Ok(Ok(())) => CaseOutcome::Passed,
        Ok(Err(Stop::Skipped(why))) => CaseOutcome::Skipped(why),
        Ok(Err(Stop::Failed(fault))) => CaseOutcome::Failed { fault, conversation },
        Err(_) => CaseOutcome::Failed {
            fault: "the case itself panicked, which is a defect of the suite".to_owned(),
            conversation,
        },
    }
}

/// Letters and digits that differ from run to run, also of runs at the same time.
fn run_letters() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Neighbouring times and process numbers differ in few bits.
    let mixed = tidegate_random::mix((now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40));
    let alphabet = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let letter = |power: u32| alphabet[(mixed / 36_u64.pow(power) % 36) as usize];
    (0..5).map(|power| char::from(letter(power))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_by_name_statement_and_version() {
        let mut options = Options::new("nowhere:0");
        let all = chosen(&options).len();
        options.versions = vec![Version::V311];
        let some = chosen(&options);
        assert!(!some.is_empty() && some.len() < all);
        assert!(some.iter().all(|job| job.version == Version::V311));
        options.only = vec!["3.1.0-1".to_owned()];
        assert!(chosen(&options).iter().any(|job| job.case.name == "connect.comes_first"));
        options.except = vec!["connect.".to_owned()];
        assert!(chosen(&options).iter().all(|job| !job.case.name.starts_with("connect.")));
    }

    #[test]
    fn run_letters_are_letters_and_digits() {
        let letters = run_letters();
        assert!(letters.len() == 5 && letters.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn a_missing_broker_is_an_error_with_a_remedy() {
        let options = Options::new("127.0.0.1:1");
        let error = run(&options).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:1") && error.contains("--broker"), "{error}");
    }
}
