//! `tidegate lab draw`: charts of figures that were measured elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use tidegate_lab::draw::Chart;
use tidegate_terminal::{Exit, report};

use super::results_error::ResultsError;

/// The flags of `tidegate lab draw`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// A list of charts in JSON; each names its file, relative to this one
    #[arg(value_name = "CHARTS.json")]
    charts: PathBuf,
}

pub(crate) fn run(args: &Args) -> Exit {
    match done(&args.charts) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn done(path: &Path) -> Result<(), ResultsError> {
    let text = fs::read_to_string(path).map_err(|source| ResultsError::Read { path: path.to_owned(), source })?;
    let charts: Vec<Chart> =
        serde_json::from_str(&text).map_err(|source| ResultsError::Charts { path: path.to_owned(), source })?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let drawn = |chart: &Chart| match chart.draw() {
        Ok(text) => Ok((directory.join(&chart.file), text)),
        Err(source) => Err(ResultsError::Chart { file: chart.file.clone(), source }),
    };
    // All of them first: a fault in one leaves the files as they were.
    for (path, text) in charts.iter().map(drawn).collect::<Result<Vec<_>, _>>()? {
        fs::write(&path, text).map_err(|source| ResultsError::Write { path, source })?;
    }
    Ok(())
}
