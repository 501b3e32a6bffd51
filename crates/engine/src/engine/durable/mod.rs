//! The store: calls of the engine.

mod crossing;
mod restore;
