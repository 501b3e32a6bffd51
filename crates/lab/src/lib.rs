//! Measures any message broker the same way, from outside.
//!
//! - [`load`] produces load and counts exactly what became of it.
pub mod load;
