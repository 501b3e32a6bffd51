//! One file per command.

mod completions;
mod config;
mod run;

use std::process::ExitCode;

use crate::cli::{Cli, Command};

/// Does what the command line asks for.
pub(crate) fn dispatch(cli: Cli) -> ExitCode {
    match cli.command {
        None => run::run(&cli.run).into(),
        Some(Command::Run(sources)) => run::run(&sources).into(),
        Some(Command::Config(command)) => config::run(&command).into(),
        Some(Command::Completions { shell }) => completions::run(shell).into(),
    }
}
