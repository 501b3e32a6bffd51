//! How long the way to a node and back takes: windows of pings, and statistics over what they bring.

mod statistics;
mod window;

pub use statistics::ConnectionStatistics;
pub use window::{PingRound, PingWindow, Pong};
