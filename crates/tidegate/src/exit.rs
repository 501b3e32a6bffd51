//! Exit codes, and how an error reaches a person.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// How a command ended. The numbers are part of the contract with scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked for.
    Ok,
    /// Something outside went wrong: an address was taken, a file could not be written.
    Failure,
    /// The command line or the configuration is wrong.
    Usage,
    /// It did what it could, and something was left out.
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

/// Tells a person on standard error what went wrong.
pub(crate) fn report(error: &dyn Display) {
    complain(format_args!("error: {error}\n"));
}

/// Writes to standard error. When even that is closed, nobody is there to be told.
pub(crate) fn complain(text: impl Display) {
    let _ = write!(io::stderr().lock(), "{text}");
}

/// Writes data to standard output.
///
/// # Errors
/// When it is closed or full.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes data to standard output and turns the outcome into an exit code. A reader who has seen enough, as `head`
/// does, is no failure.
pub(crate) fn print_and_exit(text: &str, exit: Exit) -> Exit {
    match print(text) {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => {
            report(&format_args!("cannot write to standard output: {error}"));
            Exit::Failure
        }
    }
}
