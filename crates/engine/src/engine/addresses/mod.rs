//! Mobile nodes: calls of the engine.

mod groups;
mod tally;
