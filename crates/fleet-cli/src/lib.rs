//! The commands around fleets: `tidegate up`, `manager`, `fleet` and `dns`, each with the process that it runs.

pub mod dns;
pub mod fleet;
pub mod manager;
mod place;
pub mod up;
