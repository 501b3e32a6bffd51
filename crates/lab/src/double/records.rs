//! The records of a double.

use crate::load::Histogram;

/// The records of a double.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// Messages published.
    pub published: u64,
    /// Messages refused.
    pub refused: u64,
    /// Clients refused.
    pub clients_refused: u64,
    /// Subscriptions refused.
    pub subscriptions_refused: u64,
    /// Deliveries given to connections, each counted once.
    pub delivered: u64,
    /// Deliveries dropped.
    pub dropped: u64,
    /// Deliveries given a second time.
    pub duplicated: u64,
    /// Deliveries overtaken by the next delivery.
    pub reordered: u64,
    /// How long each delivery took.
    pub delays: Histogram,
}
