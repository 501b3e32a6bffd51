//! Brokers of a fleet.

pub(crate) mod adopted;
pub(crate) mod connection;
pub(crate) mod filters;
pub(crate) mod here;
pub(crate) mod leave;
pub(crate) mod life;
pub(crate) mod opening;
pub(crate) mod order;
pub(crate) mod passed;
pub(crate) mod quota;
pub(crate) mod receive;
pub(crate) mod refusal;
pub(crate) mod route;
pub(crate) mod settle;
pub(crate) mod spread;
pub(crate) mod suspects;
