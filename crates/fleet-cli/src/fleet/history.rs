//! `tidegate fleet history`: the past decisions and actions.

use std::fmt::Write;

use clap::Args as ClapArgs;
use serde_json::Value;
use tidegate_fleet::manage::{History, HistoryError};

use super::lines::show_action;
use crate::local::{FleetArgs, PlaceError, text_of};
use tidegate_admin_cli::admin_client::time;
use tidegate_terminal::{Exit, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate fleet history
  tidegate fleet history --actions --count 5
  tidegate fleet history --json > history.jsonl

It is read from the fleet's state directory, whether its manager runs or not. It goes back about 16 MiB of JSON.
More: docs/manager.md.";

/// The flags of `tidegate fleet history`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "List the observations, decisions and actions of a fleet's manager, the newest last", after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
    /// How many entries, at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Only actions, with their steps
    #[arg(long)]
    actions: bool,
    /// Print JSON, one entry per line
    #[arg(long)]
    json: bool,
}

/// Why the past of a fleet is not shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum PastError {
    /// The fleet is not found.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Its history cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The requested observation is too old, or not made yet.
    #[error("observation {0} is not in the history; `tidegate fleet history` lists the known ones")]
    NoObservation(u64),
    /// No observation was followed by an action.
    #[error("no observation has led to an action; name one of `tidegate fleet history`")]
    NoAction,
}

/// Lists the history.
pub(super) fn run(args: &Args) -> Exit {
    match entries(args) {
        Ok(entries) => {
            let show = |entry: &Value| if args.json { format!("{entry}\n") } else { shown(entry) };
            print_and_exit(&entries.iter().map(show).collect::<String>(), Exit::Ok)
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn entries(args: &Args) -> Result<Vec<Value>, PastError> {
    let place = args.fleet.find()?;
    let count = usize::try_from(args.count).unwrap_or(usize::MAX);
    let wanted = |entry: &Value| !args.actions || entry["kind"] == "action";
    Ok(History::newest(&place.directory, count, wanted)?)
}

fn shown(entry: &Value) -> String {
    let at = time(entry["at_ms"].as_u64().unwrap_or_default());
    let mut text = String::new();
    if entry["kind"] == "action" {
        let _ = write!(text, "{at} ");
        show_action(&mut text, entry);
        return text;
    }
    for (name, level) in entry["levels"].as_object().into_iter().flatten() {
        let _ = writeln!(
            text,
            "{at} observation {} {name}: {} serving; {}; did {}",
            entry["observation"],
            level["seen"]["serving"],
            text_of(&level["reason"]),
            text_of(&level["did"])
        );
    }
    text
}
