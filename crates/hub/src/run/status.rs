//! How a pipeline does, for others.

use crate::core::Numbers;

/// The state of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineState {
    /// It has no connection to the broker, or no subscription there.
    Connecting,
    /// It takes messages and brings them on.
    Running,
    /// A sink is away: messages wait.
    Retrying,
    /// An operator has paused it: messages wait.
    Paused,
}

impl PipelineState {
    /// In a word.
    pub fn label(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Paused => "paused",
        }
    }
}

/// How a sink of a pipeline does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkStatus {
    /// Its name.
    pub name: String,
    /// Records that it does not have yet.
    pub waiting: usize,
    /// Why it takes no batches, if it takes none.
    pub error: Option<String>,
    /// Its last error, also when it takes batches again, and when that was: Unix milliseconds.
    pub last_error: Option<(u64, String)>,
}

/// The last message that was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// When: Unix milliseconds.
    pub at: u64,
    /// The topic of the message.
    pub topic: String,
    /// Why.
    pub why: String,
    /// Whether it is kept as a dead letter.
    pub kept: bool,
}

/// How a pipeline does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineStatus {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: PipelineState,
    /// The start of the pipeline in this process, from which `numbers` count. Unix milliseconds.
    pub since: u64,
    /// Counts of messages.
    pub numbers: Numbers,
    /// Messages that it has and that are not acknowledged; messages that wait at the broker are not counted.
    pub held: usize,
    /// Age of the oldest of these, milliseconds.
    pub lag_ms: u64,
    /// Messages that wait in the log of the pipeline on the bus, about.
    pub waiting: u64,
    /// Why a sink does not take batches, or the broker no connection.
    pub error: Option<String>,
    /// Its sinks, in the order of `to`; behind them the sink of dead letters.
    pub sinks: Vec<SinkStatus>,
    /// The last message that was not delivered.
    pub last_failure: Option<LastFailure>,
}

/// The state noted by the thread of a pipeline.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Whether the session has subscriptions on this connection.
    pub(super) takes_messages: bool,
    pub(super) paused: bool,
    /// Unix milliseconds.
    pub(super) since: u64,
    pub(super) numbers: Numbers,
    pub(super) held: usize,
    pub(super) waiting: u64,
    /// Unix milliseconds.
    pub(super) oldest: Option<u64>,
    pub(super) error: Option<String>,
    pub(super) sinks: Vec<SinkStatus>,
    pub(super) last_failure: Option<LastFailure>,
}

impl Snapshot {
    pub(super) fn status(&self, name: &str, clock: u64) -> PipelineStatus {
        let state = match (self.paused, self.takes_messages, &self.error) {
            (true, _, _) => PipelineState::Paused,
            (false, false, _) => PipelineState::Connecting,
            (false, true, Some(_)) => PipelineState::Retrying,
            (false, true, None) => PipelineState::Running,
        };
        PipelineStatus {
            name: name.to_owned(),
            state,
            since: self.since,
            numbers: self.numbers,
            held: self.held,
            waiting: self.waiting,
            lag_ms: self.oldest.map_or(0, |oldest| clock.saturating_sub(oldest)),
            error: self.error.clone(),
            sinks: self.sinks.clone(),
            last_failure: self.last_failure.clone(),
        }
    }
}
