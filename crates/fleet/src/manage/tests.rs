//! The manager against a model of a provider and of orchestrators.

mod beside;
mod cases;
mod commands;
mod kills;
mod members;
pub(super) mod memory;
mod seen;
mod stacked;
mod world;
