//! A bridge: a client of this broker and a client of another one, which hand each other what their topics ask for.
//!
//! - `rule` reads one line of topics, in the words that Mosquitto's configuration has for them; `routes` are all lines
//!   of a bridge: what each end subscribes to, and under which name a message goes on.
//! - `traffic` is what an end does with its client's news, without any I/O: a message is acknowledged at one end when
//!   the other end's broker has acknowledged it, so that the bridge owes nothing that a broker does not keep.
//! - `end` is an end on its thread, with its connection and its attempts to get one; `versions` says which MQTT it
//!   tries.
//! - `hops` marks messages, so that none goes round in a loop.
//! - `bridge` starts both ends and stops them; `status` is what others may know of it.
//!
//! What each end guarantees is MQTT's: nothing of QoS 1 or 2 is lost while both brokers keep their sessions, and a
//! message of QoS 2 comes once, whatever happens to connections. A process that ends in the middle repeats what was on
//! its way.

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
