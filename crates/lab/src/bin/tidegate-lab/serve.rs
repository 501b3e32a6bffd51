//! `tidegate lab serve`: runs in a browser.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use tidegate_lab::serve::Server;

use super::stop_on_signals;
use tidegate_terminal::{Exit, complain, report};

/// The flags of `tidegate lab serve`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// A directory of runs, or one with such subdirectories
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The address to listen on; every client that reaches it can read all reports in the directory
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:18085")]
    listen: SocketAddr,
}

pub(crate) fn run(args: &Args) -> Exit {
    match served(args) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// Why runs are not shown.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve {} at {listen}: {source}", .directory.display())]
struct ServeError {
    directory: PathBuf,
    listen: SocketAddr,
    source: io::Error,
}

fn served(args: &Args) -> Result<(), ServeError> {
    let cannot = |source| ServeError { directory: args.directory.clone(), listen: args.listen, source };
    let stop = stop_on_signals().map_err(cannot)?;
    let server = Server::bind(&args.directory, args.listen).map_err(cannot)?;
    complain(format_args!("http://{}/\n", server.address().map_err(cannot)?));
    server.run(&stop).map_err(cannot)
}
