//! A bridge: a client of this broker and a client of another one, which hand each other the messages of their topics.
//!
//! - `rule` reads one line of topics, in the words of Mosquitto's configuration; `routes` are all lines of a bridge:
//!   the subscriptions of each end, and the name under which a message is passed on.
//! - `traffic` is the work of an end on its client's news, without any I/O: a message is acknowledged at one end when
//!   the other end's broker has acknowledged it, so that the bridge owes nothing that a broker does not keep.
//! - `end` is an end on its thread, with its connection and its attempts to get one; `versions` says which MQTT it
//!   tries.
//! - `hops` marks messages, so that none goes round in a loop.
//! - `bridge` starts both ends and stops them; `status` is their public state.
//!
//! The guarantees of each end are MQTT's: no message of QoS 1 or 2 is lost while both brokers keep their sessions, and
//! a message of QoS 2 comes once, whatever happens to connections. A process that ends in the middle repeats its
//! messages in flight.

mod bridge;
mod end;
mod hops;
mod routes;
mod rule;
mod settings;
mod status;
mod traffic;
mod versions;

pub use bridge::{Bridge, BridgeError};
pub use routes::{Routes, RoutesError};
pub use rule::{Direction, TopicRule, TopicRuleError};
pub use settings::{BridgeSettings, EndSettings};
pub use status::{BridgeStatus, Side};
pub use tidegate_client::{QoS, Version, net};
