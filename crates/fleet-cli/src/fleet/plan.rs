//! `tidegate fleet plan`: the action that the manager would begin now, or the cause of none.

use clap::Args as ClapArgs;

use super::explain::show_level;
use crate::local::{FleetArgs, Known};
use tidegate_terminal::Exit;

const EXAMPLES: &str = "\
Examples:
  tidegate fleet plan
  tidegate fleet plan --json

It is the decision of the last observation, with everything that held it back. Exit codes are as with
`fleet status`. More: docs/manager.md.";

/// The flags of `tidegate fleet plan`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Show the next actions of a fleet's manager, and the reasons that hold them back", after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the plan.
pub(super) fn run(args: &Args) -> Exit {
    args.fleet.show(args.json, |known| &known.plan, shown)
}

fn shown(known: &Known) -> String {
    let age = known.age();
    let age = if age.is_empty() { age } else { format!("{age}; the last plan, ") };
    let mut text = format!("{age}after observation {} ({})\n", known.plan["observation"], known.source);
    for (name, level) in known.plan["levels"].as_object().into_iter().flatten() {
        show_level(&mut text, name, level);
    }
    text
}
