//! The elastic tier: brokers behind orchestrators, both growing and shrinking with the load.
//!
//! What decides is pure and knows no clock: [`load`] turns observations into a load, [`decide`] turns loads into
//! decisions, and [`simulate`] runs both against a model of a fleet. What acts is apart: [`manage`] carries decisions
//! out step by step, and [`provider`] is where resources come from.

pub mod decide;
pub mod document;
pub mod fleet_file;
pub mod level;
pub mod load;
pub mod manage;
mod percent;
pub mod provider;
pub mod simulate;
