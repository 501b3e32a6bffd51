//! The elastic tier: brokers behind orchestrators, both growing and shrinking with the load.
//!
//! Decisions are pure and read no clock: [`load`] turns observations into a load, [`decide`] turns loads into
//! decisions, and [`simulate`] runs both against a model of a fleet. Actions are apart: [`manage`] carries decisions
//! out step by step, and [`provider`] supplies resources.

mod clock;
pub mod decide;
pub mod fleet_file;
pub mod level;
pub mod load;
pub mod manage;
pub mod provider;
mod secret_file;
pub mod simulate;
