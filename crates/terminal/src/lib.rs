//! The terminal interface of Tidegate's commands: exit codes, errors, output, and help that fits the terminal.
//!
//! `tidegate` and `tidegate-lab` share it, so that both answer scripts and people in the same way.

pub mod help;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// How a command ended. The numbers are part of the contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Ok,
    /// The environment failed: an address is in use, a file cannot be written.
    Failure,
    /// The command line or the configuration is wrong.
    Usage,
    /// The command succeeded in part; some items were left out.
    LeftOut,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::LeftOut => 3,
        })
    }
}

/// Writes an error to standard error.
pub fn report(error: &dyn Display) {
    complain(format_args!("error: {error}\n"));
}

/// Refuses a command that needs a feature of Cargo which this program was built without.
pub fn refuse_left_out(command: &str, feature: &str) -> Exit {
    report(&format_args!(
        "`{command}` needs the feature `{feature}`, and this program was built without it; take the full program, or build \
         this one with `--features {feature}`"
    ));
    Exit::Usage
}

/// Writes to standard error. A failure is ignored: no other channel is left to report it.
pub fn complain(text: impl Display) {
    let _ = write!(io::stderr().lock(), "{text}");
}

/// Writes data to standard output.
///
/// # Errors
/// When it is closed or full.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes data to standard output and turns the outcome into an exit code. A reader who has seen enough, as `head`
/// does, is no failure.
pub fn print_and_exit(text: &str, exit: Exit) -> Exit {
    match print(text) {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => {
            report(&format_args!("cannot write to standard output: {error}"));
            Exit::Failure
        }
    }
}
