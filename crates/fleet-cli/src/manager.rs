//! `tidegate manager`: keeps a fleet as large as its load asks for.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::local::{After, AtItsEnd, Session, SessionArgs};
use tidegate_process::service_manager;
use tidegate_terminal::Exit;

const EXAMPLES: &str = "\
Examples:
  tidegate manager --fleet fleet.toml
  tidegate manager --fleet fleet.toml --log info

It starts the fleet of the file, or continues with the fleet of an earlier manager, and works until SIGTERM or SIGINT. The
fleet runs on without it; `tidegate fleet stop` stops it then, and `tidegate up` is the same as this and stops the fleet at its end.
More: docs/manager.md.";

/// The flags of `tidegate manager`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Keep a fleet of brokers and orchestrators as large as its load asks for", after_help = EXAMPLES)]
pub struct Args {
    /// The fleet file
    #[arg(long, value_name = "FILE")]
    fleet: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
}

/// Works until it is stopped.
pub fn run(args: &Args) -> Exit {
    let session = match Session::open(&args.fleet, &args.session, AtItsEnd::Leave) {
        Ok(session) => session,
        Err(no) => return no.into(),
    };
    let line = format!("tidegate {} manager ready: {}\n", env!("CARGO_PKG_VERSION"), session.addresses());
    service_manager::tell_ready("manager", &line);
    let (ended, exit) = session.work(|_| After::Work);
    ended.leave(exit)
}
