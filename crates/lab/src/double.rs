//! A broker's double: it delays, drops, doubles and reorders messages as it is told and keeps books of it, so that it
//! can be proven that the lab measures what was put in.
//!
//! It knows sessions only for as long as a connection lasts, and retains nothing.

mod behaviour;
mod broker;
mod records;
mod serve;

mod subscriptions;

pub use behaviour::{Behaviour, Delay, Stall};
pub use broker::Double;
pub use records::Records;
pub use serve::Served;
