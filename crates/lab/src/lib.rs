//! Measures any message broker the same way, from outside.
//!
//! - [`double`] is a broker whose faults are known, to prove that.
//! - [`load`] produces load and counts exactly what became of it.
pub mod double;
pub mod load;
