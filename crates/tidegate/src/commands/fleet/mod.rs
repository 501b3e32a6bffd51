//! `tidegate fleet ...`: brokers behind orchestrators that grow and shrink with the load.

mod arguments;
mod simulate;
mod trace;

use clap::Subcommand;

use crate::exit::Exit;

/// What can be done with a fleet.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    Simulate(Box<simulate::Args>),
    #[command(subcommand)]
    Trace(trace::TraceCommand),
}

/// Does what is asked for with a fleet.
pub(crate) fn run(command: &FleetCommand) -> Exit {
    match command {
        FleetCommand::Simulate(args) => simulate::run(args),
        FleetCommand::Trace(command) => trace::run(command),
    }
}
