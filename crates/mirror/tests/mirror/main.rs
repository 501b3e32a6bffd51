//! The store on a mirror: with the embedded bus, and with a real NATS server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod copies;
mod crashes;
mod fencing;
mod harness;
mod nats;
mod space;
