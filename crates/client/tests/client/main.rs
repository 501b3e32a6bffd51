//! The public interface of the client: its output and events, byte by byte, without a socket and without waiting.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test may stop at the first surprise"
)]

mod broker;
mod connecting;
mod driver;
mod ending;
mod hostile;
mod lossy;
mod pipe;
mod publishing;
mod receiving;
mod requests;
mod script;
mod version_1;
