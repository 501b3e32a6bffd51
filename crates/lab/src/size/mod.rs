//! The cheapest configuration that keeps a service level (LAV-26): `search` chooses what is tried next, `drive` makes the
//! runs.

mod drive;
mod search;

pub use drive::{Asked, Chosen, SizeError, Tried, scenario, size};
pub use search::{Candidate, Prices, Search};
