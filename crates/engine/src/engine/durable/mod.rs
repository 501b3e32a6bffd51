//! The store: calls of the engine.

mod commits;
mod crossing;
mod restore;
