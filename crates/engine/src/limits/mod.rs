//! Limits of clients on a shard, limits that depend on its load, and quotas of tenants.

pub(crate) mod loop_lag;
pub(crate) mod overload;
pub(crate) mod rate;
pub(crate) mod slow;
pub(crate) mod tenants;
pub(crate) mod topic_limits;
pub(crate) mod usage;
