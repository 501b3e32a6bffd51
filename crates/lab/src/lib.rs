//! Measures any message broker the same way, from outside.
//!
//! - What is measured: [`scenario`] is the experiment as data, [`peer`] the brokers, [`limits`] and [`network`] what
//!   they may use, and [`criteria`] a survey's table.
//! - Load: [`load`] produces it and counts exactly what became of it; [`drivers`] do the same for other protocols;
//!   [`contextnet`] runs several gateways on one bus as one peer; [`double`] is a broker whose faults are known, to
//!   prove the counting.
//! - Measuring: [`run`] runs a scenario again and again, [`sample`] looks at what processes use, [`probe`] asks a
//!   broker what it really does, [`sweep`] raises a load until a service level breaks, [`priority`] finds out who goes
//!   first, [`soak`] what drifts over hours.
//! - Results: [`results`] is what came of it, [`compare`] tells whether two series differ, [`report`] shows it,
//!   [`serve`] lets one browse.

pub mod compare;
pub mod contextnet;
pub mod criteria;
pub mod double;
pub mod drivers;
pub mod limits;
pub mod load;
mod misspelt;
pub mod network;
pub mod peer;
pub mod priority;
pub mod probe;
pub mod report;
pub mod results;
pub mod run;
pub mod sample;
pub mod scenario;
pub mod serve;
pub mod soak;
pub mod span;
pub mod stop;
pub mod sweep;
