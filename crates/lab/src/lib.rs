//! Measures any message broker the same way, from outside.
//!
//! - Setup: [`scenario`] is the experiment as data, [`peer`] the brokers, [`limits`] and [`network`] their resources,
//!   and [`criteria`] a survey's table.
//! - Load: [`load`] produces it and counts every message exactly; [`drivers`] do the same for other protocols;
//!   [`endpoint`] reads addresses; [`contextnet`] runs several gateways on one bus as one peer; [`double`] is a broker
//!   with known faults, to verify the counting.
//! - Measuring: [`run`] repeats a scenario, [`sample`] measures processes, [`probe`] tests the features of a broker,
//!   [`sweep`] raises a load until a service level breaks, [`priority`] tests the order of priorities, [`soak`] finds
//!   drift over hours.
//! - Results: [`measure`] names the numbers, [`results`] has the data, [`compare`] tests whether two series differ,
//!   [`report`] renders them, [`serve`] lets a browser show them.

pub mod compare;
pub mod contextnet;
pub mod criteria;
pub mod double;
pub mod draw;
pub mod drivers;
pub mod endpoint;
pub mod limits;
pub mod load;
pub mod measure;
mod misspelt;
pub mod network;
pub mod peer;
pub mod platform;
pub mod priority;
pub mod probe;
pub mod report;
pub mod results;
pub mod run;
pub mod sample;
pub mod scenario;
pub mod serve;
pub mod size;
pub mod soak;
pub mod span;
pub mod stop;
pub mod sweep;
