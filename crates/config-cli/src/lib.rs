//! The commands around the configuration, and the flags of all commands that load one.

pub mod args;
pub mod command;
#[cfg_attr(not(feature = "convert"), path = "convert_absent.rs")]
pub mod convert;
mod loading;
mod named_files;
pub mod ready;

pub use loading::load;
