//! Bridges and pipelines of a broker: started, placed on members, and stopped.

pub mod bridges;
pub mod command;
pub mod hub;
