//! The order and number of waiting messages: tests whose result is an order or a count, which a load does not show.
//!
//! A test publishes at QoS 1 while its subscriber does not acknowledge. So all acknowledged messages wait in the
//! broker, except the few that may be in flight. When the subscriber resumes, they arrive in the order of the broker's
//! queue.

mod channels;
mod judge;
mod queue;
mod table;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::plan::{Protocol, Target};
use crate::results::Found;
use crate::stop::Stop;

/// The subject of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Whether messages of a higher priority go first (MID-64..67).
    Priority,
    /// How many messages wait for a client, and whether each topic has a queue of its own (MID-68).
    Queue,
    /// The survey's criteria (MID-02 to MID-36): the results of a probe.
    Criteria,
}

/// The parameters of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The broker's name.
    pub peer: String,
    /// The broker.
    pub target: Target,
    /// Whether it needs MQTT over TCP; only [`Check::Criteria`] does not.
    pub by_mqtt: bool,
    /// The version of MQTT; only 5.0 can say a message's priority, and how many messages may be under way.
    pub protocol: Protocol,
    /// How long the subscriber sleeps while messages are published.
    pub sleep: Duration,
}

impl Check {
    /// Tests a broker; returns the results as tables.
    ///
    /// # Errors
    /// In words, when the broker does not do what every test needs.
    pub fn run(self, asked: &Asked, stop: &Stop) -> Result<Vec<Found>, String> {
        match self {
            Self::Priority => table::priority(asked, stop),
            Self::Queue => queue::limits(asked, stop),
            Self::Criteria => crate::criteria::found(asked),
        }
    }
}
