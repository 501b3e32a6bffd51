//! Bridges and pipelines of a broker: started, placed on members, and stopped.

pub mod bridges;
#[cfg(feature = "pipelines")]
pub mod command;
#[cfg(feature = "pipelines")]
pub mod hub;
#[cfg(not(feature = "pipelines"))]
#[path = "no_hub.rs"]
pub mod hub;
