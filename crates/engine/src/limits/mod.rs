//! Limits on what clients may ask of a shard, those that depend on how it is doing, and what each tenant may have.

pub(crate) mod loop_lag;
pub(crate) mod overload;
pub(crate) mod rate;
pub(crate) mod slow;
pub(crate) mod tenants;
pub(crate) mod topic_limits;
pub(crate) mod usage;
