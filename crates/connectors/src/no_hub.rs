//! The hub of a program without pipelines: their sections are refused before, so that there is nothing to start.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_engine::{AuthRequest, ListenerId, Verdict};
use tidegate_node::Node;
use tidegate_placement::Placement;

/// The listener of pipelines, which no program without them has.
#[derive(Clone, Copy, Debug)]
pub enum Door {}

impl Door {
    /// Whether it is this listener that a client comes by.
    pub fn is_at(&self, _: ListenerId) -> bool {
        match *self {}
    }

    /// Lets a pipeline in.
    pub fn decide(&self, _: &AuthRequest) -> Verdict {
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
pub struct Pipelines;

impl Pipelines {
    /// Starts nothing.
    ///
    /// # Errors
    /// None.
    pub fn start(_: &Config, _: &Node, _: Option<&Door>, _: Placement, _: &BrokerStatus) -> Result<Self, Infallible> {
        Ok(Self)
    }

    /// Follows nothing.
    pub fn follow(&self) {}

    /// Reads how many records sinks have taken: none.
    pub fn sink_deliveries(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        || 0
    }

    /// Stops nothing.
    pub fn stop(&self, _: Duration) {}
}
