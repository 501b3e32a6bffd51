//! Measures any message broker the same way, from outside.
//!
//! - [`compare`] tells whether two series of runs differ.
//! - [`criteria`] is the survey's table, filled by probes, datasheets and scenarios.
//! - [`contextnet`] runs several gateways on one bus as one peer.
//! - [`double`] is a broker whose faults are known, to prove that.
//! - [`drivers`] does the same for middleware that speaks other protocols.
//! - [`limits`] is what a broker or a group of clients may use.
//! - [`load`] produces load and counts exactly what became of it.
//! - [`network`] has delay, loss and a rate between a broker and its load.
//! - [`peer`] has the brokers: how each is installed, started, and stopped.
//! - [`sample`] looks at what they use, and limits it.
//! - [`scenario`] has what is measured, as data.
//! - [`run`] runs a scenario against brokers, again and again.
//! - [`sweep`] raises a load until a service level breaks.
//! - [`priority`] finds out who goes first where messages wait, and how many may wait.
//! - [`soak`] tells what drifts over hours.
//! - [`probe`] asks a broker what it really does.
//! - [`results`] is what came of it, [`report`] shows it, [`serve`] lets one browse.
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
