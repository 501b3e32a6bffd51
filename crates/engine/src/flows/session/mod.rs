//! Sessions.

pub(crate) mod acknowledge;
pub(crate) mod tail;
