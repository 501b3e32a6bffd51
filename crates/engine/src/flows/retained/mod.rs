//! Retained messages.

pub(crate) mod fetch;
