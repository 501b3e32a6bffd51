//! The hub of a program without pipelines: their sections are refused before, so that there is nothing to start.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_engine::{AuthOutcome, AuthRequest, ListenerId};
use tidegate_node::Node;
use tidegate_placement::Placement;

pub use self::{NoDoor as Door, NoPipelines as Pipelines};

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

/// The histories of a tenant: none.
pub fn histories(_: &Config, _: &str) -> Vec<(PathBuf, Duration)> {
    Vec::new()
}

/// A question to histories, which only pipelines write.
#[derive(Debug)]
pub struct HistoryQuery<F> {
    /// The topics; empty for all.
    pub filters: Vec<F>,
    /// Unix milliseconds of the first message.
    pub from: Option<u64>,
    /// Messages at most.
    pub limit: usize,
}

/// Reads nothing.
///
/// # Errors
/// None.
pub fn read_history<F, V>(
    _: &[(PathBuf, Duration)],
    _: &HistoryQuery<F>,
    _: &mut dyn FnMut(&str) -> bool,
    _: &dyn Fn() -> bool,
) -> Result<Vec<V>, Infallible> {
    Ok(Vec::new())
}
