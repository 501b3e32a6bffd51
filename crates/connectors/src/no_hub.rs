//! The hub of a program without pipelines: their sections are refused before, so that there is nothing to start.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use tidegate_administration::{BrokerStatus, HistoriesPart};
use tidegate_config::Config;
use tidegate_engine::{AuthOutcome, AuthRequest, ListenerId};
use tidegate_node::Node;
use tidegate_placement::Placement;

pub use self::{
    NoDoor as Door, NoHistories as Histories, NoHistoryAnswer as HistoryAnswer, NoHistoryError as ReadHistoryError,
    NoPipelines as Pipelines,
};

/// The listener of pipelines, which no program without them has.
#[derive(Clone, Debug)]
pub enum NoDoor {}

impl NoDoor {
    /// Whether it is this listener that a client comes by.
    pub fn is_at(&self, _: ListenerId) -> bool {
        match *self {}
    }

    /// Lets a pipeline in.
    pub fn decide(&self, _: &AuthRequest) -> AuthOutcome {
        match *self {}
    }
}

/// The configuration as it is.
///
/// # Errors
/// None.
pub fn with_door(config: Config) -> Result<(Config, Option<Door>), Infallible> {
    Ok((config, None))
}

/// No pipelines.
#[derive(Debug, Default)]
pub struct NoPipelines;

impl NoPipelines {
    /// Starts nothing.
    ///
    /// # Errors
    /// None.
    pub fn start(_: &Config, _: &Node, _: Option<&Door>, _: Placement, _: &BrokerStatus) -> Result<Self, Infallible> {
        Ok(Self)
    }

    /// False.
    pub fn may_move(&self) -> bool {
        false
    }

    /// Follows nothing.
    pub fn follow(&self) {}

    /// Reads how many records sinks have taken: none.
    pub fn sink_deliveries(&self) -> impl Fn() -> BTreeMap<String, u64> + Send + Sync + 'static {
        BTreeMap::new
    }

    /// Stops nothing.
    pub fn stop(&self, _: Duration) {}
}

/// No histories, which only pipelines write.
#[derive(Debug, Default)]
pub struct NoHistories;

impl NoHistories {
    /// None.
    pub fn of(_: &Config) -> Self {
        Self
    }

    /// Reads nothing.
    ///
    /// # Errors
    /// There is no history.
    pub fn read<O: ?Sized, F, V>(
        &self,
        _: &O,
        _: (&str, &HistoryQuery<F>),
        _: &mut dyn FnMut(&str) -> bool,
        _: &dyn Fn() -> bool,
    ) -> Result<NoHistoryAnswer<V>, NoHistoryError> {
        Err(NoHistoryError::Missing)
    }
}

impl HistoriesPart for NoHistories {
    fn answer(&self, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }
}

/// Messages of a history.
#[derive(Debug)]
pub struct NoHistoryAnswer<V> {
    /// The messages, the oldest first.
    pub messages: Vec<V>,
    /// The nodes whose messages are missing, each with the reason.
    pub incomplete: Vec<String>,
}

/// Why a history is not read.
#[derive(Debug, thiserror::Error)]
pub enum NoHistoryError {
    /// No pipeline of the tenant keeps one.
    #[error("no pipeline of the tenant keeps a history")]
    Missing,
    /// Its files cannot be read.
    #[error("cannot read a history: {0}")]
    Io(#[from] std::io::Error),
}

/// The place of a message.
#[derive(Debug)]
pub struct HistoryPlace {
    /// Unix milliseconds.
    pub time: u64,
    /// The id of the message.
    pub id: String,
}

/// A question to histories.
#[derive(Debug)]
pub struct HistoryQuery<F> {
    /// The topics; empty for all.
    pub filters: Vec<F>,
    /// Unix milliseconds of the first message.
    pub from: Option<u64>,
    /// The message behind which the answer begins.
    pub behind: Option<HistoryPlace>,
    /// Messages at most.
    pub limit: usize,
}
