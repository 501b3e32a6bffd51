//! The store: calls of the engine.

mod crossing;
pub(crate) mod restore;
