//! The log of a pipeline on the bus: a broker appends messages (`sinks/log.rs`), and processes of the hub share its
//! partitions (`sources/log`).
//!
//! `state` is a small second log: positions of partitions, whether the pipeline is paused, and the last replay.

mod state;

use std::sync::mpsc::channel;
use std::time::Duration;

use tidegate_bus::{Address, BusError, Done, GroupName, LogName, LogPartition, LogSpec, Settings};

pub(crate) use self::state::{Mark, Replay, SharedState, mark_record, pause_record, replay_record};

/// Longest name of a pipeline whose messages are on the bus.
pub const MAX_PIPELINE_NAME: usize = 48;

/// Records of a partition; `max_bytes` is reached before.
const MAX_RECORDS: u64 = 1_000_000_000;
/// Records, and bytes, of the log of states.
const STATE_RECORDS: u64 = 1_000_000;
const STATE_BYTES: u64 = 64 << 20;
/// Fewest bytes of a partition.
const MIN_PARTITION_BYTES: u64 = 1 << 20;

/// The log of a pipeline.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// The pipeline: 1 to [`MAX_PIPELINE_NAME`] letters, digits, `-` and `_`.
    pub pipeline: String,
    /// The bus.
    pub address: Address,
    /// How the bus is spoken to.
    pub bus: Settings,
    /// Partitions: at most as many processes share the work. Records of one key are in one partition.
    pub partitions: u32,
    /// Bytes that all partitions hold at most. Beyond it messages wait in the broker.
    pub max_bytes: u64,
    /// How long messages wait at most.
    pub wait: Duration,
    /// How long messages are kept behind their delivery, for a replay.
    pub keep: Duration,
    /// Messages that one process works on at once.
    pub window: u16,
    /// The name of this process in the group: 1 to 64 letters, digits, `-` and `_`.
    pub member: String,
}

/// The names of a pipeline on the bus.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) messages: LogName,
    pub(crate) states: LogName,
    pub(crate) group: GroupName,
}

/// The name of a pipeline cannot be used on the bus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pipeline `{pipeline}` cannot be on the bus: its name must be 1 to {} ASCII letters, digits, `-` and `_`",
    MAX_PIPELINE_NAME
)]
pub struct NamesError {
    /// The pipeline.
    pub pipeline: String,
}

impl LogSettings {
    pub(crate) fn names(&self) -> Result<Names, NamesError> {
        let messages = LogName::new(&format!("hub-{}", self.pipeline));
        let states = LogName::new(&format!("hub-{}-state", self.pipeline));
        let group = GroupName::new(&format!("hub-{}", self.pipeline));
        match (messages, states, group) {
            (Ok(messages), Ok(states), Ok(group)) => Ok(Names { messages, states, group }),
            _ => Err(NamesError { pipeline: self.pipeline.clone() }),
        }
    }

    /// The log of messages.
    pub(crate) fn messages(&self, names: &Names) -> LogSpec {
        let bytes = self.max_bytes / u64::from(self.partitions.max(1));
        LogSpec {
            max_records: MAX_RECORDS,
            max_bytes: bytes.max(MIN_PARTITION_BYTES),
            keep_for: Some(self.wait.max(self.keep)),
            ..LogSpec::fenced(names.messages.clone(), self.partitions)
        }
    }

    pub(crate) fn place(names: &Names, partition: u32) -> LogPartition {
        LogPartition::new(names.messages.clone(), partition)
    }
}

pub(crate) fn states(names: &Names) -> LogSpec {
    LogSpec {
        max_records: STATE_RECORDS,
        max_bytes: STATE_BYTES,
        ..LogSpec::shared(names.states.clone(), 1).latest_of_key()
    }
}

/// Waits for the end of a request to the bus, which the bus bounds in time.
pub(crate) fn wait<T: Send + 'static>(call: impl FnOnce(Done<T>) -> Result<(), BusError>) -> Result<T, BusError> {
    let (tell, outcome) = channel();
    // A receiver that has gone needs no outcome.
    call(Box::new(move |result| drop(tell.send(result))))?;
    outcome.recv().unwrap_or(Err(BusError::Stopped))
}
