//! Sessions.

pub(crate) mod acknowledge;
pub(crate) mod reading;
pub(crate) mod tail;
