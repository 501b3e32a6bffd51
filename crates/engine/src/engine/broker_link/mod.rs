//! Brokers of a fleet: calls of the engine.

mod connection;
mod former;
mod leave;
mod life;
mod report;
mod route;
mod settled;
