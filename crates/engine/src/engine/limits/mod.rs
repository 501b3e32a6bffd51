//! Limits: calls of the engine.

mod live_limits;
mod loop_lag;
mod pace;
mod rate;
mod slow;
