//! `tidegate lab compare`: whether two series of runs differ, by a test.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use tidegate_lab::compare::{Conclusion, Difference, SIGNIFICANT, compare, compare_peers};
use tidegate_lab::report::shown;
use tidegate_lab::results::Results;

use super::results_error::ResultsError;
use tidegate_terminal::{Exit, print, report};

/// The flags of `tidegate lab compare`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Directories with results.json: the first is compared with each other one; one alone has its brokers compared
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Show every comparison, not only differences
    #[arg(long)]
    all: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Exit {
    let differences = match differences(&args.runs) {
        Ok(differences) => differences,
        Err(error) => {
            report(&error);
            return Exit::Failure;
        }
    };
    let text = if args.json {
        serde_json::to_string(&differences).map_or_else(|error| error.to_string(), |text| text + "\n")
    } else {
        table(&differences, args.all)
    };
    // Brokers that differ are no regression; runs that got worse are.
    let worse = args.runs.len() > 1 && differences.iter().any(|difference| difference.conclusion == Conclusion::Worse);
    match print(&text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            report(&error);
            Exit::Failure
        }
        _ if worse => Exit::Failure,
        _ => Exit::Ok,
    }
}

fn differences(runs: &[PathBuf]) -> Result<Vec<Difference>, ResultsError> {
    let read: Vec<Results> = runs.iter().map(|run| read(run)).collect::<Result<_, _>>()?;
    let Some((before, others)) = read.split_first() else { return Ok(Vec::new()) };
    if others.is_empty() {
        return Ok(compare_peers(before));
    }
    let mut all = Vec::new();
    for (now, path) in others.iter().zip(runs.iter().skip(1)) {
        if (&now.scenario.name, now.settings.time_scale) != (&before.scenario.name, before.settings.time_scale) {
            let name = |results: &Results| {
                format!("`{}` at a time scale of {}", results.scenario.name, results.settings.time_scale)
            };
            return Err(ResultsError::Kinds { path: path.clone(), found: name(now), first: name(before) });
        }
        all.extend(compare(before, now));
    }
    Ok(all)
}

/// Reads the results of a directory, or a file of results.
pub(crate) fn read(path: &Path) -> Result<Results, ResultsError> {
    let file = if path.is_dir() { path.join("results.json") } else { path.to_owned() };
    match fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text).map_err(|source| ResultsError::Format { path: file, source }),
        Err(source) => Err(ResultsError::Read { path: file, source }),
    }
}

fn table(differences: &[Difference], all: bool) -> String {
    let mut out = String::new();
    let too_few = differences.iter().filter(|difference| difference.conclusion == Conclusion::TooFew).count();
    let tested = differences.len() - too_few;
    for difference in differences {
        let word = match difference.conclusion {
            Conclusion::Better => "better",
            Conclusion::Worse => "WORSE",
            Conclusion::Same if all => "same",
            Conclusion::TooFew if all => "too few",
            Conclusion::Same | Conclusion::TooFew => continue,
        };
        let (name, unit) = difference.measure.name();
        let (before, now) = (shown(difference.before), shown(difference.now));
        let Difference { case, peer, probability, repetitions, .. } = difference;
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "{word:8} {case}, {peer}: {name} {before} -> {now} {unit} (p {probability:.3}, {} and {} runs)",
            repetitions.0, repetitions.1
        );
    }
    if tested > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a few comparisons")]
        let by_chance = tested as f64 * SIGNIFICANT;
        let _ = writeln!(
            out,
            "{tested} comparisons by the exact test of Mann and Whitney at {SIGNIFICANT}, differences below 3 % left out; where nothing differs, \
             about {} would still be called a difference.",
            shown(by_chance)
        );
    } else if too_few == 0 {
        out.push_str("Nothing can be compared: no case has valid runs on both sides.\n");
    }
    if too_few > 0 {
        let _ = writeln!(
            out,
            "{too_few} had too few valid repetitions: at least four on each side are needed (--repeat 4)."
        );
    }
    out
}
