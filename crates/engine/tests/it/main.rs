//! What the engine promises, shown through its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test may stop at the first surprise, and tells where it was"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod connections;
mod keep_alive;
mod publish;
mod queues;
mod retained;
mod sessions;
mod subscribe;
mod takeover;
mod wills;
