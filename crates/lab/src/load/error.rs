//! Why a run could not be made.

use std::io;

use super::plan::PlanError;

/// Why a run could not be made. That clients are refused is no error but part of the outcome.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The broker's address leads nowhere.
    #[error("`{host}` has no address: {error}")]
    Address {
        /// The host of the target.
        host: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file of certificates cannot be used.
    #[error("the certificates cannot be read from {path}: {problem}")]
    Certificates {
        /// The file.
        path: String,
        /// The fault.
        problem: String,
    },
    /// A system call of a run failed.
    #[error("{part}: {error}")]
    System {
        /// The attempted operation.
        part: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// This process may not have enough open files.
    #[error(
        "{needed} open files are needed in one process and {limit} are allowed; raise `ulimit -n`, or share the load with --processes"
    )]
    Files {
        /// How many.
        needed: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A worker process ended, or sent an unexpected message.
    #[error("worker {worker} of the load generator failed: {problem}")]
    Worker {
        /// The number of the worker, from 0.
        worker: u32,
        /// A description.
        problem: String,
    },
}
