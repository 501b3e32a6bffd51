//! Retained messages.

pub(crate) mod fetch;
pub(crate) mod fetching;
