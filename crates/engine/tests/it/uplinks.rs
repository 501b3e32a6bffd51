//! An orchestrator in front of brokers that a test has written.

mod copies;
mod filters;
mod life;
mod lies;
mod loss;
mod retained;
mod routing;
mod settling;
mod versions;
