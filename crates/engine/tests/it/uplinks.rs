//! An orchestrator in front of brokers that a test has written.

mod routing;
