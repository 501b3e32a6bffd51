//! `tidegate fleet plan`: what the manager would do now, and why not.

use clap::Args as ClapArgs;

use super::explain::show_level;
use crate::exit::{Exit, print_and_exit, report};
use crate::fleet::{FleetArgs, Known};

const EXAMPLES: &str = "\
Examples:
  tidegate fleet plan
  tidegate fleet plan --json

It is what the last observation decided, with everything that held it back. More: docs/manager.md.";

/// The flags of `tidegate fleet plan`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Show what a fleet's manager would do now, and what holds it back", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the plan.
pub(crate) fn run(args: &Args) -> Exit {
    match args.fleet.find().and_then(|place| place.known()) {
        Ok(known) if args.json => print_and_exit(&format!("{}\n", known.plan), Exit::Ok),
        Ok(known) => print_and_exit(&shown(&known), Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn shown(known: &Known) -> String {
    let mut text = format!("after observation {} ({})\n", known.plan["observation"], known.source);
    for (name, level) in known.plan["levels"].as_object().into_iter().flatten() {
        show_level(&mut text, name, level);
    }
    text
}
