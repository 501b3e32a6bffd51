//! Failures of a run of chaos.

use std::io;

use rustix::io::Errno;
use tidegate_client::TopicError;

use super::plan::Member;
use crate::local::PlaceError;

/// Why a run of chaos ends early.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChaosError {
    /// The system gives no handler of signals.
    #[error("cannot catch signals: {0}")]
    Signals(#[source] io::Error),
    /// The fleet is not found.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Struck processes would stay down.
    #[error("the fleet has no manager that runs, and nothing would heal it: start it with `tidegate up`")]
    NoManager,
    /// All processes of the fleet are on other machines.
    #[error("no process of the fleet is on this machine")]
    NoMember,
    /// The file of the clients' password.
    #[error("cannot read {path}: {source}")]
    Password {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The topic of the messages.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The fleet grants no subscription in time.
    #[error("the fleet takes no subscription: look at `tidegate fleet status`")]
    NoSubscription,
    /// No message arrives before the first strike.
    #[error("the fleet carries no message: look at `tidegate fleet status`")]
    NoMessage,
    /// The system refuses access to a process.
    #[error("cannot {attempt} {} (process {}): {source}", .member.name, .member.pid)]
    Process {
        /// The attempted operation.
        attempt: &'static str,
        /// The member of the fleet.
        member: Member,
        /// The error of the operating system.
        source: Errno,
    },
}
