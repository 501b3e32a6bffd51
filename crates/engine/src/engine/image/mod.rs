//! Partitions that move between processes: calls of the engine.

pub(crate) mod adopting;
mod ahead;
pub(crate) mod forwarding;
pub(crate) mod import;
mod moving;
mod owed;
pub(crate) mod parting;
