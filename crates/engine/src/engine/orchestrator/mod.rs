//! Homes of partitions: calls of the engine.

mod homes;
mod passing;
