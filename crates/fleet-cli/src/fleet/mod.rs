//! `tidegate fleet ...`: brokers behind orchestrators that grow and shrink with the load.

mod arguments;
mod explain;
mod history;
mod plan;
mod simulate;
mod status;
mod stop;
mod trace;

use clap::Subcommand;

use tidegate_terminal::Exit;

/// What can be done with a fleet.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "the help of each command is the documentation of its arguments")]
pub enum Args {
    Simulate(Box<simulate::Args>),
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    Status(status::Args),
    History(history::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Stop(stop::Args),
}

/// Does what is asked for with a fleet.
pub fn run(command: &Args) -> Exit {
    match command {
        Args::Simulate(args) => simulate::run(args),
        Args::Trace(command) => trace::run(command),
        Args::Status(args) => status::run(args),
        Args::History(args) => history::run(args),
        Args::Explain(args) => explain::run(args),
        Args::Plan(args) => plan::run(args),
        Args::Stop(args) => stop::run(args),
    }
}
