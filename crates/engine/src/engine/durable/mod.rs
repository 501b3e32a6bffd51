//! The store: calls of the engine.

mod commits;
mod crossing;
pub(crate) mod restore;
