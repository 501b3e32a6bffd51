//! One file per rule. Each takes the sources or the tree and returns the violations.

pub mod budgets;
pub mod contexts;
pub mod documented;
pub mod errors;
pub mod layers;
pub mod links;
pub mod map;
pub mod named;
pub mod names;
pub mod panics;
pub mod promises;
pub mod purity;
pub mod structure;
pub mod text;
pub mod walks;
pub mod words;
