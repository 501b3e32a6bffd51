//! The order and number of waiting messages: tests whose result is an order or a count, which a load does not show.
//!
//! A test publishes at QoS 1 while its subscriber does not acknowledge. So all acknowledged messages wait in the
//! broker, except the few that may be in flight. When the subscriber resumes, they arrive in the order of the broker's
//! queue.

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
    /// The broker lacks a feature that every test needs.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The run is stopped.
    #[error("stopped")]
    Stopped,
}

/// The parameters of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The broker's name.
    pub peer: String,
    /// The broker.
    pub target: Target,
    /// Whether it needs MQTT over TCP; only [`Check::Criteria`](crate::scenario::Check::Criteria) does not.
    pub by_mqtt: bool,
    /// The version of MQTT; only 5.0 can say a message's priority, and how many messages may be under way.
    pub protocol: Protocol,
    /// How long the subscriber sleeps while messages are published.
    pub sleep: Duration,
}
