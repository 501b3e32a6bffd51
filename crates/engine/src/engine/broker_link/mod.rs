//! Brokers of a fleet: calls of the engine.

mod connection;
mod former;
mod leave;
mod life;
mod receive;
mod report;
mod route;
mod settled;
