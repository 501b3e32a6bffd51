//! `tidegate fleet status`: the fleet as it is.

use std::fmt::Write;

use clap::Args as ClapArgs;
use serde_json::Value;

use super::lines::{note, percent, show_action, show_skew};
use crate::local::{FleetArgs, Known, ManagerState, text_of};
use tidegate_terminal::Exit;

const EXAMPLES: &str = "\
Examples:
  tidegate fleet status
  tidegate fleet status --json
  tidegate fleet status --fleet fleet.toml

Without --fleet and --state it is the fleet of this user that runs, else the only one that is known. Of a fleet that was stopped,
or whose manager has died, it shows the last known state, and its time.
Exit codes: 0 the manager runs or was stopped, with its fleet or without, 1 it is dead, hangs or does not answer, 2 the command line
is wrong.
More: docs/manager.md.";

/// The flags of `tidegate fleet status`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Show the brokers and orchestrators of a fleet, and the actions under way", after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the status.
pub(super) fn run(args: &Args) -> Exit {
    args.fleet.show(args.json, |known| &known.status, shown)
}

fn shown(known: &Known) -> String {
    let status = &known.status;
    let now = match known.manager {
        ManagerState::Running => format!("{}; manager running", text_of(&status["state"])),
        ManagerState::Stopped | ManagerState::Left | ManagerState::Dead => known.age(),
    };
    let mut text = format!(
        "fleet {}: {now} ({}); observation {}, every {} ms\n",
        text_of(&status["fleet"]),
        known.source,
        status["observation"],
        status["interval_ms"],
    );
    for level in ["orchestrator", "broker"] {
        show_level(&mut text, level, &status["levels"][level]);
    }
    for action in status["actions"].as_array().into_iter().flatten() {
        show_action(&mut text, action);
    }
    let totals = &status["totals"];
    // Writing to a string cannot fail.
    let given_up = totals["given_up"].as_u64().filter(|count| *count > 0);
    let given_up = given_up.map(|count| format!(", {count} given up")).unwrap_or_default();
    let (actions, healed, failed) = (&totals["actions"], &totals["healed"], &totals["failed"]);
    let _ = writeln!(text, "{actions} actions, {healed} healed, {failed} failed{given_up}");
    text
}

fn show_level(text: &mut String, name: &str, level: &Value) {
    let _ = writeln!(
        text,
        "{name}s: {} serving, {} pending, {} draining, {} dead{} (SLA {} to {}); load {}: {}",
        level["serving"],
        level["pending"],
        level["draining"],
        level["dead"],
        level["stopped"]
            .as_u64()
            .filter(|count| *count > 0)
            .map(|count| format!(", {count} stopped"))
            .unwrap_or_default(),
        level["min"],
        level["max"],
        percent(&level["load"]),
        text_of(&level["reason"])
    );
    show_skew(text, &level["skew"]);
    for resource in level["resources"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "  {:<18} {:<8} {:<28} cpu {:>5}  owed {}  pid {}{}{}",
            text_of(&resource["name"]),
            text_of(&resource["state"]),
            text_of(&resource["address"]),
            percent(&resource["cpu"]),
            text_of(&resource["owed"]),
            text_of(&resource["pid"]),
            homes(&resource["partitions"]),
            note(&resource["note"])
        );
    }
}

/// How many partitions of the clients are at home at an orchestrator, where there is a table.
fn homes(partitions: &Value) -> String {
    partitions.as_u64().map(|count| format!("  partitions {count}")).unwrap_or_default()
}
