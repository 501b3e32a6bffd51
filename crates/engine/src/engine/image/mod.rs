//! Partitions that move between processes: calls of the engine.

mod export;
mod import;
mod moving;
mod owed;
mod rest;
