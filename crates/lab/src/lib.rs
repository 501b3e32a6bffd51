//! Measures any message broker the same way, from outside.
//!
//! - [`double`] is a broker whose faults are known, to prove that.
//! - [`drivers`] does the same for middleware that speaks other protocols.
//! - [`load`] produces load and counts exactly what became of it.
pub mod double;
pub mod drivers;
pub mod load;
