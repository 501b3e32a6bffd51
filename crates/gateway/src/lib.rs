//! The core for mobile nodes in a process: a broker as a gateway, and the services beside it. `tidegate-context` decides.

pub mod command;
pub mod core;
