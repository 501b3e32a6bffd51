//! A running broker as its console and the admin API see it.
//!
//! [`BrokerStatus`] holds the phase, the node and the drain, and answers the console. Features are not known by name:
//! each registers a [`Part`] with its numbers and the reason why the broker is not ready, and a cluster, a fleet of
//! brokers and pipelines register their answers to the admin API.

mod brokers;
pub mod console;
pub mod control;
pub mod drain;
mod logins;
pub mod metering;
pub mod part;
mod status;
mod store_status;
mod usage_log;

pub use logins::LoginsPart;
pub use part::{
    AHEAD, ClusterPart, FORMER_LIFE, HISTORY_QUESTION, HistoriesPart, INHERITED, PIECE, Part, Parts, PipelinesPart,
    SERVED_QUESTION,
};
pub use status::BrokerStatus;
pub use store_status::StorePart;
