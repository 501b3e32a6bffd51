//! Failures of the rig itself. A fault of the broker is no failure but a finding, see `ledger`.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Why a run had to be given up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file or folder of the rig.
    #[error("{attempt} {} failed: {source}", path.display())]
    File {
        /// The attempt, such as "reading".
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Something with the system that has no file.
    #[error("{attempt} failed: {source}")]
    System {
        /// The attempt.
        attempt: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A packet of the rig's own that cannot be encoded: a mistake in the rig.
    #[error("a packet of the rig cannot be encoded: {0}")]
    Encode(#[from] tidegate_mqtt::EncodeError),
    /// An invalid topic of the rig's own: a mistake in the rig.
    #[error("a topic of the rig is not valid: it {0}")]
    Topic(#[from] tidegate_mqtt::TopicError),
    /// The broker does not come up although nothing was done to it.
    #[error("the broker does not start: {0}; try its command by hand")]
    Broker(String),
    /// A strike that was named needs something that the run does not have.
    #[error("this run has nothing that {0} could strike; see `tidegate-torture cluster --help`")]
    Strike(String),
    /// Other processes have too many ports.
    #[error("no {count} ports side by side are free between {first} and {last}")]
    Ports {
        /// How many are needed.
        count: u16,
        /// The first port that was tried.
        first: u16,
        /// And where it stopped.
        last: u16,
    },
    /// The library that sees file calls could not be built.
    #[error("the preload library could not be built: {0}; a C compiler called cc is needed")]
    Preload(String),
    /// The books start empty, and so must the broker.
    #[error("{} is not empty; name another folder", .0.display())]
    Used(PathBuf),
    /// The library does not see what the program does.
    #[error("faults cannot be simulated for this program, the preload library does not see its calls: {0}")]
    Blind(String),
    /// A connection between nodes does not come from the address of a node.
    #[error("a connection between nodes comes from {0}, which is no node's address, so that its way cannot be struck")]
    Stranger(IpAddr),
    /// The log of the preload library makes no sense.
    #[error("the log of file calls is damaged at byte {at}: {fault}")]
    Log {
        /// The offset of the record.
        at: usize,
        /// The fault.
        fault: &'static str,
    },
}

impl Failure {
    /// Wraps what the system said about a file.
    pub(crate) fn file(attempt: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { attempt, path, source }
    }

    /// Wraps what the system said.
    pub(crate) fn system(attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { attempt, source }
    }
}
