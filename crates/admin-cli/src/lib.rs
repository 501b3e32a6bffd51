//! The commands of the command line that ask a running broker, cluster or fleet by the admin API.

pub mod admin_client;
pub mod ban;
pub mod clients;
pub mod drain;
pub mod kick;
pub mod meter;
pub mod reload;
pub mod why;

pub use meter::parse_time;
