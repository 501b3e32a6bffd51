//! The manager against a model of a provider and of orchestrators.

mod cases;
mod commands;
mod homes;
mod kills;
pub(super) mod memory;
mod stacked;
mod world;
