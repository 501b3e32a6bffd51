//! A broker's double: it delays, drops, duplicates and reorders messages as configured and counts that, so that the
//! lab's own counts can be verified.
//!
//! Its sessions end with their connections, and it retains no messages.

mod behaviour;
mod broker;
mod records;
mod serve;

mod subscriptions;

pub use behaviour::{Behaviour, Delay, Stall};
pub use broker::Double;
pub use records::Records;
pub use serve::Served;
