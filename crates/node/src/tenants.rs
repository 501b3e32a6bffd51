//! The usage of tenants over all shards, and their quotas over all nodes of a cluster.
//!
//! Each node announces its use to the others, once a second and when it has changed much. A node admits what its own use
//! and the last announced use of the others leave room for. So a quota is exceeded by at most what the other nodes admit
//! between a change and the arrival of its announcement.

mod announcement;
mod count;
mod counts;
mod others;
mod rates;
mod seat;
mod sharing;
mod tenant_use;
#[cfg(test)]
mod tests;

pub use announcement::QUOTAS_ANNOUNCEMENT;
pub use counts::{TenantCounts, TenantHoldings};
pub use seat::TenantSeat;
