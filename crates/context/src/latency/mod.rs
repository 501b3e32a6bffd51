//! Round-trip times to nodes: windows of pings, and statistics over their answers.

mod statistics;
mod window;

pub use statistics::ConnectionStatistics;
pub use window::{PingRound, PingWindow, Pong};
