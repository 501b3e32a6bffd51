//! The levels of a fleet.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the two levels at which a fleet is elastic (BRK-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Brokers, which work messages.
    Broker,
    /// Orchestrators, which clients connect to.
    Orchestrator,
}

impl Level {
    /// Both, in the order in which they are told.
    pub const ALL: [Self; 2] = [Self::Broker, Self::Orchestrator];

    /// The name in settings, explanations and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Orchestrator => "orchestrator",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
