//! Connections: calls of the engine.

mod after_frame;
mod close;
mod conn_ack;
mod connect;
mod continuing;
mod enhanced;
mod input;
pub(super) mod redirecting;
mod suspension;
mod to_write;
mod wills;
