//! The MQTT clients of the command line: `tidegate pub`, `sub` and `rr`.
//!
//! They share flags, the format language, and a connection with a person at its end.

mod chain;
mod flags;
mod format;
mod outcome;
mod printer;
pub mod publish;
mod quoted;
pub mod request;
mod session;
mod stdin_lines;
pub mod subscribe;
