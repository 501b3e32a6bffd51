//! Several gateways on one bus as one peer, so that experiments with mobile nodes are runs like any other.
//!
//! One process starts the bus and the gateways and ends with them; all of them are its children, so that they are
//! sampled and stopped together. SIGUSR1 kills the second gateway, SIGUSR2 starts it again.

mod gateways;

pub use gateways::{Gateways, GatewaysError, Part, Requests};
