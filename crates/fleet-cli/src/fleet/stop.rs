//! `tidegate fleet stop`: ends a fleet whose manager has ended.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::local::{AtItsEnd, Session, SessionArgs};
use tidegate_terminal::{Exit, print_and_exit};

const EXAMPLES: &str = "\
Examples:
  tidegate fleet stop fleet.toml

It is for a fleet that `tidegate manager` has left running, or whose manager was killed: orchestrators stop first, then brokers. The stores of
orchestrators stay, and the next start continues with them. A fleet whose manager works is not stopped: end `tidegate up`
with Ctrl-C or SIGTERM, which stops the fleet too, or end `tidegate manager` first. Attached brokers stay.
Exit codes: 0 it is stopped, 1 it is not, 2 the command line or the fleet file is wrong. More: docs/manager.md.";

/// The flags of `tidegate fleet stop`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Stop a fleet that runs without its manager", after_help = EXAMPLES)]
pub struct Args {
    /// The fleet file
    #[arg(value_name = "FLEET.toml")]
    fleet: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
}

/// Stops the fleet.
pub(super) fn run(args: &Args) -> Exit {
    match Session::open(&args.fleet, &args.session, AtItsEnd::StopNow) {
        Ok(session) => match session.stop_now() {
            Exit::Ok => print_and_exit("stopped\n", Exit::Ok),
            other => other,
        },
        Err(no) => no.into(),
    }
}
