//! Bridges and pipelines of a broker: started, placed on members, and stopped.

pub mod bridges;
#[cfg(feature = "pipelines")]
pub mod command;
#[cfg(feature = "pipelines")]
pub mod hub;
#[cfg(not(feature = "pipelines"))]
pub mod no_hub;
#[cfg(not(feature = "pipelines"))]
pub use no_hub as hub;
