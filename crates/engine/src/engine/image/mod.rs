//! Partitions that move between processes: calls of the engine.

pub(crate) mod adopting;
mod ahead;
mod export;
pub(crate) mod forwarding;
mod import;
mod moving;
mod owed;
pub(crate) mod parting;
