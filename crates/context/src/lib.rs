//! The core for mobile nodes: points of access, latency, balancing and groups by context, as services on the bus.
//!
//! The decisions are pure: they use neither a clock nor a bus, and are tested on a virtual clock. `docs/context.md`
//! describes the topics, and the guarantees of each service.
//!
//! - Data on the bus: `register` (topics), [`messages`], [`records`] (messages of applications), `partition`.
//! - Points of access: `points` (the manager), `gateways` (load reports), [`ranking`] and `ideal` (how many nodes each
//!   should have), `reallocation` (who is handed over).
//! - Latency: [`latency`] (pings), `ping_reconfig` (the length of their window).
//! - Groups: [`groups`] (definers and memberships), `expression` (an operator's conditions, with bounds), `topics`
//!   (topics on which nodes publish contexts).
//! - Around all of it: [`service`], the threads of gateways, managers, definers and applications.

#[cfg(feature = "expressions")]
mod expression;
#[cfg(not(feature = "expressions"))]
#[path = "expression_absent.rs"]
mod expression;
mod expression_limits;
mod gateways;
pub mod groups;
mod ideal;
pub mod latency;
pub mod messages;
mod partition;
mod ping_reconfig;
mod points;
pub mod ranking;
mod real;
mod reallocation;
pub mod records;
mod register;
pub mod service;
mod topics;

pub use expression::{Expression, Variables};
#[cfg(feature = "expressions")]
pub use expression::{HostError, HostFunction};
pub use expression_limits::{
    ExpressionError, MAX_COMPREHENSIONS, MAX_EXPRESSION_BYTES, MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_PARTS,
};
pub use gateways::{GatewayLoad, LoadTable, MAX_GATEWAYS, ReportRefused, Standing};
pub use ideal::{ideal_numbers, ideal_shares};
pub use partition::partition_of;
pub use ping_reconfig::{PingReconfig, RateFactor, ReconfigError, ReconfigSettings};
pub use points::{Points, PointsAction, PointsCounters, PointsError, PointsSettings};
pub use reallocation::{Holder, Move, Reallocation, ReallocationError, ReallocationSettings};
pub use register::{RecordLimits, Topic};
pub use topics::{ContextTopics, Said, TopicPatternError, level_of, name_of};
