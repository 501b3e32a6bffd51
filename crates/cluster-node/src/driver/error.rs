//! Errors of a node that joins its cluster, and of partitions that move.

use std::io;
use std::path::PathBuf;

use serde_json::Value;
use tidegate_bus::{AddressError, BusError, NameError};
use tidegate_config::cluster::NodeSetupError;
use tidegate_node::{MoveError, NoAnswer, NodeNameError, SecretTooShort, TlsError};

use super::parts;

/// Why a node cannot be a member of its cluster.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The name of the node is invalid.
    #[error("cluster.name: {0}")]
    Name(NodeNameError),
    /// An address or the file of the secret cannot be used.
    #[error(transparent)]
    Setup(#[from] NodeSetupError),
    /// The secret is too short.
    #[error("cluster.secret_file: {0}")]
    Secret(SecretTooShort),
    /// The system gives no thread.
    #[error("cannot start a thread for the cluster: {0}")]
    Thread(io::Error),
    /// The memory of the cluster in the data directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The memory of the cluster in the data directory is damaged.
    #[error("{} is damaged, or of another version; without it the node begins empty", .0.display())]
    DamagedMemory(PathBuf),
    /// The data directory is of a process that was no member of a cluster.
    #[error(
        "{} has {sessions} sessions and {retained} retained messages, and no cluster.json: a process that was no member of a cluster has written them, and a member would remove them; start it without cluster.name (--node), or give the member another data directory",
        directory.display()
    )]
    NoMembersStore {
        /// The data directory.
        directory: PathBuf,
        /// Sessions in the store.
        sessions: u64,
        /// Retained messages in the store that a member would remove.
        retained: u64,
    },
    /// The ranking that shares follow cannot be used.
    #[error(transparent)]
    Ranking(#[from] tidegate_config::context::WrongKey),
    /// It cannot be seen whether another process has the name.
    #[error("cannot see whether another process has the node's name: {0}")]
    NameWatch(BusError),
    /// A certificate for links cannot be made.
    #[error("cluster.tls: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS of links cannot be set up.
    #[error("cluster.tls: {0}")]
    Tls(#[from] TlsError),
    /// The address of the bus is invalid.
    #[error("cluster.bus: {0}")]
    BusAddress(AddressError),
    /// The bus cannot be used.
    #[error("the bus {address}: {source}")]
    Bus {
        /// The bus.
        address: String,
        /// The cause.
        source: BusError,
    },
    /// The name of a log or subject is invalid.
    #[error(transparent)]
    LogName(#[from] NameError),
    /// A log cannot be made.
    #[error("log {log} on the bus {address}: {source}")]
    Log {
        /// The log.
        log: String,
        /// The bus.
        address: String,
        /// The cause.
        source: BusError,
    },
    /// Nodes cannot agree on a secret.
    #[error("the secret on the bus: {0}")]
    SharedSecret(BusError),
    /// The system gives no randomness.
    #[error("no randomness for a secret: {0}")]
    Randomness(io::Error),
    /// Nodes cannot agree on the numbers of tenants.
    #[error("the numbers of tenants on the bus: {0}")]
    Tenants(BusError),
    /// Other nodes have agreed on other numbers of tenants.
    #[error("the numbers of tenants on the bus: the other nodes have other numbers for their tenants")]
    OtherTenants,
}

/// Why partitions do not move.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartitionMoveError {
    #[error("they take {0} bytes, more than {max}", max = parts::MAX_BYTES)]
    TooLong(usize),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Node(#[from] MoveError),
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error("the table of the cluster has it no more")]
    CalledOff,
    #[error("queues could not be read from the store in time")]
    NotRead,
    #[error("the ends of long queues could not be sent to the new home in time; the move is prepared again")]
    NotSent,
    #[error("the data directory or the bus did not save that they move")]
    NotRemembered,
    #[error("not all nodes have reached the new home in time")]
    NotCut,
    #[error("their last home still forwards messages for them; they move later")]
    StillForwarded,
    #[error("the parcel does not have the expected partitions")]
    OtherPartitions,
    #[error("partition {partition}: {before:?} was owed before, {after} after")]
    OtherOwed { partition: u16, before: Option<Value>, after: Value },
    #[error("the bytes are no parcel of this version")]
    NoParcel,
}
