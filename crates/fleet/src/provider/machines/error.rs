//! Errors of commands and their answers.

use std::time::Duration;

use tidegate_units::duration;

use crate::provider::{ProviderError, ResourceName};

/// Most characters of standard error that an error passes on: the last ones.
const MAX_TEXT: usize = 600;

/// Why a machine could not be made, listed or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The program cannot be started.
    #[error("cannot start `{command}`: {problem}; correct the command in [machines]")]
    NotStarted {
        /// The command with its arguments.
        command: String,
        /// The error of the operating system.
        problem: String,
    },
    /// It ended with another exit code than 0.
    #[error("`{command}` ended with exit code {code}{}", said(.stderr))]
    Exited {
        /// The command with its arguments.
        command: String,
        /// Its exit code.
        code: i32,
        /// Its standard error, without secrets.
        stderr: String,
    },
    /// A signal ended it.
    #[error("`{command}` was ended by a signal{}", said(.stderr))]
    Signalled {
        /// The command with its arguments.
        command: String,
        /// Its standard error, without secrets.
        stderr: String,
    },
    /// It took too long and was killed.
    #[error("`{command}` was killed after {}{}; raise machines.time_limit if it needs longer", duration::show_length(*.limit), said(.stderr))]
    TooLong {
        /// The command with its arguments.
        command: String,
        /// The time limit.
        limit: Duration,
        /// Its standard error, without secrets.
        stderr: String,
    },
    /// `list` printed something else than machines.
    #[error(
        "the output of `{command}` is no list of machines: {problem}; it must print JSON objects with `name` and `host`"
    )]
    Answer {
        /// The command with its arguments.
        command: String,
        /// The fault.
        problem: String,
    },
    /// `list` printed none of several machines that it had shown.
    #[error(
        "`{command}` shows none of {count} machines that it showed before; correct its credentials or region, or remove machines.json from the state directory of a stopped manager if they were all removed"
    )]
    Vanished {
        /// The command with its arguments.
        command: String,
        /// The number of machines, 2 or more.
        count: usize,
    },
    /// No list has ended since the manager began.
    #[error("`list` of [machines] has not ended yet; it may take machines.time_limit")]
    NotListed,
    /// A signal came before that.
    #[error("a signal ended the manager before `list` of [machines] had ended; the machines are as they were")]
    Interrupted,
    /// A machine runs and does not answer.
    #[error("the machine of `{0}` runs and does not answer: restart it, or remove it in the cloud")]
    Hanging(ResourceName),
    /// A name is not used twice.
    #[error("`{0}` was released, and a name is not used again")]
    Released(ResourceName),
}

impl MachineError {
    /// Whether the command may have had its effect although it failed.
    pub(super) fn may_have_worked(&self) -> bool {
        !matches!(self, Self::NotStarted { .. })
    }
}

impl ProviderError {
    /// Whether a signal ended the manager before the first list of the machines.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        let Self::Cloud(error) = self else { return false };
        matches!(error.downcast_ref(), Some(MachineError::Interrupted))
    }
}

impl From<MachineError> for ProviderError {
    fn from(error: MachineError) -> Self {
        Self::Cloud(Box::new(error))
    }
}

fn said(stderr: &str) -> String {
    let text = stderr.trim();
    let skipped = text.chars().count().saturating_sub(MAX_TEXT);
    let end: String = text.chars().skip(skipped).collect();
    let lines: Vec<&str> = end.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { " without a word on standard error".to_owned() } else { format!(": {}", lines.join(" / ")) }
}
