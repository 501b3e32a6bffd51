//! `tidegate lab soak`: hours under load, and the measures that drift meanwhile.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args as ClapArgs;
use tidegate_lab::report::shown;
use tidegate_lab::results::Results;
use tidegate_lab::run::{Live, RunError, run as run_series};
use tidegate_lab::soak::{Drifted, Trend, drifts, found};

use super::run::{Args as RunArgs, order};
use super::{guarded, report};
use tidegate_terminal::{Exit, print_and_exit, report as tell};
use tidegate_units::duration::{LengthError, read_flag};

/// The flags of `tidegate lab soak`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    run: RunArgs,

    /// How long publishers publish, up to 71 hours
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = time)]
    duration: Duration,
}

/// A wrong value of `--for`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum TimeError {
    #[error(transparent)]
    Length(#[from] LengthError),
    #[error("not between 1s and 71h")]
    Range,
}

fn time(text: &str) -> Result<Duration, TimeError> {
    let time = read_flag(text)?;
    let range = Duration::from_secs(1)..=Duration::from_secs(71 * 3600);
    if range.contains(&time) { Ok(time) } else { Err(TimeError::Range) }
}

pub(crate) fn run(args: &SoakArgs) -> Exit {
    let mut order = match order(&args.run) {
        Ok(order) => order,
        Err(wrong) => {
            tell(&wrong);
            return Exit::Usage;
        }
    };
    order.duration = Some(args.duration);
    order.keep_stopped = true;
    let (stop, _watchdog) = match guarded(&order.place) {
        Ok(guarded) => guarded,
        Err(exit) => return exit,
    };
    let mut results = match run_series(&order, &mut Live::default(), &stop) {
        Ok(results) => results,
        Err(error) => {
            tell(&error);
            let wrong = matches!(error, RunError::NoCase { .. } | RunError::Scenario(_));
            return if wrong { Exit::Usage } else { Exit::Failure };
        }
    };
    let (text, is_worse) = judged(&mut results);
    if let Err(error) = report::write(&order.out, &results, true) {
        tell(&error);
        return Exit::Failure;
    }
    let well = !is_worse && results.not_measured.is_empty();
    print_and_exit(&text, if well { Exit::Ok } else { Exit::Failure })
}

/// Puts the drifts into the results; a line for each, and whether any is one for the worse.
fn judged(results: &mut Results) -> (String, bool) {
    let (mut text, mut is_worse) = (String::new(), false);
    for run in &mut results.runs {
        let drifts = drifts(run);
        is_worse |= drifts.iter().any(|drifted| drifted.is_worse);
        // Writing to a text does not fail.
        let _ = writeln!(text, "{}, {}", run.case, run.peer);
        if let Some(why) = &run.invalid {
            let _ = writeln!(text, "  not valid: {why}");
        }
        for drifted in &drifts {
            line(drifted, &mut text);
        }
        run.found.push(found(&drifts));
    }
    (text, is_worse)
}

fn line(drifted: &Drifted, text: &mut String) {
    let Drifted { name, unit, drift, is_worse } = drifted;
    let _ = match drift {
        None => writeln!(text, "  {name:18} too few looks"),
        Some(drift) => writeln!(
            text,
            "  {name:18} {} to {} {unit}, {} an hour{}",
            shown(drift.from),
            shown(drift.to),
            shown(drift.per_hour),
            match drift.trend() {
                _ if *is_worse => ": WORSE",
                Trend::Steady => ": steady",
                _ => "",
            }
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_takes_seconds_to_days() {
        assert_eq!(time("8h"), Ok(Duration::from_secs(8 * 3600)));
        for wrong in ["0s", "100h", "long"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
