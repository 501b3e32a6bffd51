//! Gateway load ranking (`CTX-39`): a score for each gateway, higher being lighter. The study names two algorithms that
//! it never describes (`CTX-40`); the two here are of our own definition, and an operator can write a third one.

mod connections_inverse;
mod expression;
mod resources;

use crate::latency::ConnectionStatistics;

pub use connections_inverse::ConnectionsInverse;
pub use expression::ScoreExpression;
pub use resources::{ResourceWeights, WeightedResources, WeightsError};

/// The data of an active gateway for a ranking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayView {
    /// Its name.
    pub name: String,
    /// How many nodes it has, those on their way to it included.
    pub nodes: u64,
    /// How many it may have; 0 when that is not known.
    pub capacity: u64,
    /// Share of its processors that is busy, 0 to 1.
    pub cpu: f64,
    /// Share of its memory that is in use, 0 to 1.
    pub memory: f64,
    /// Length of its mean turn, milliseconds.
    pub loop_lag_ms: u64,
    /// Bytes that wait in its queues.
    pub queue_bytes: u64,
    /// The statistics of its pongs.
    pub statistics: ConnectionStatistics,
}

/// Scores gateways.
pub trait Ranking: Send {
    /// The score of a gateway among all active ones: at least 0, higher is lighter.
    fn score(&self, gateway: &GatewayView) -> f64;
}
