//! `tidegate fleet ...`: brokers behind orchestrators that grow and shrink with the load.

mod arguments;
mod chaos;
mod explain;
mod history;
mod lines;
mod plan;
mod simulate;
mod status;
mod stop;
mod trace;

use clap::Subcommand;

use tidegate_terminal::Exit;

/// The commands for a fleet.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "the help of each command is the documentation of its arguments")]
pub enum FleetCommand {
    Simulate(Box<simulate::Args>),
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    Status(status::Args),
    History(history::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Stop(stop::Args),
    Chaos(Box<chaos::ChaosArgs>),
}

/// Runs a command for a fleet.
pub fn run(command: &FleetCommand) -> Exit {
    match command {
        FleetCommand::Simulate(args) => simulate::run(args),
        FleetCommand::Trace(command) => trace::run(command),
        FleetCommand::Status(args) => status::run(args),
        FleetCommand::History(args) => history::run(args),
        FleetCommand::Explain(args) => explain::run(args),
        FleetCommand::Plan(args) => plan::run(args),
        FleetCommand::Stop(args) => stop::run(args),
        FleetCommand::Chaos(args) => chaos::run(args),
    }
}
