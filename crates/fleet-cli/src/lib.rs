//! The commands around fleets: `tidegate up`, `manager`, `fleet` and `dns`, each with the process that it runs.

pub mod dns;
pub mod fleet;
mod local;
pub mod manager;
pub mod up;
