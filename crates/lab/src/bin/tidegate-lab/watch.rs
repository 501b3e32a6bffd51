//! `tidegate lab watch`: ends the brokers of a killed lab. The lab starts it; it is not for users.

use std::io::stdin;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use tidegate_lab::peer::watch;

use tidegate_terminal::Exit;

/// The flags of `tidegate lab watch`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The directory of the files of the lab's brokers
    #[arg(value_name = "DIR")]
    scratch: PathBuf,
}

pub(crate) fn run(args: &Args) -> Exit {
    watch(&args.scratch, stdin());
    Exit::Ok
}
