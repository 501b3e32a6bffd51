//! Queues of sessions: calls of the engine.

mod expiring;
mod tail;
