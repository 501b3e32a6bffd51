//! The cheapest configuration that keeps a service level (LAV-26): `search` chooses the next size, `drive` makes the
//! runs.

mod drive;
mod search;

pub use drive::{Chosen, Demand, SizeError, Tried, scenario, size};
pub use search::{Candidate, Prices, SizeSearch};
