//! Who goes first where messages wait, and how many may wait: tests whose answer is an order or a count, which no load
//! tells.
//!
//! A test publishes at QoS 1 while its subscriber does not acknowledge, so that everything the publisher has an
//! acknowledgement for waits in the broker, but for the few messages that may be under way. What comes when the
//! subscriber goes on is in the order of the broker's queue.

mod channels;
mod judge;
mod queue;
mod table;

pub(crate) use queue::limits;
pub(crate) use table::priority;

use std::time::Duration;

use crate::load::plan::{Protocol, Target};
use crate::probe::SessionError;

/// Why a test has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The broker does not do what every test needs.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The run is stopped.
    #[error("stopped")]
    Stopped,
}

/// How it is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The broker's name.
    pub peer: String,
    /// The broker.
    pub target: Target,
    /// Whether it is spoken to by MQTT over TCP; only [`Check::Criteria`](crate::scenario::Check::Criteria) can do without.
    pub by_mqtt: bool,
    /// The version of MQTT; only 5.0 can say a message's priority, and how many messages may be under way.
    pub protocol: Protocol,
    /// How long the subscriber sleeps while messages are published.
    pub sleep: Duration,
}
