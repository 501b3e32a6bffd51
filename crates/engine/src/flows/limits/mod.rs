//! Limits.

pub(crate) mod loop_lag;
pub(crate) mod rate;
pub(crate) mod tenants;
