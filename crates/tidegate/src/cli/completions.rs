//! `tidegate completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use tidegate_terminal::{Exit, print_and_exit};

/// Prints the script that completes our command line in a shell.
pub(crate) fn run(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut script);
    print_and_exit(&String::from_utf8_lossy(&script), Exit::Ok)
}
