//! When a publisher publishes.

use serde::{Deserialize, Serialize};

/// The trigger of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Pace {
    /// The clock, whatever the broker does (open loop). Latency counts from the scheduled time, so that a broker that
    /// stalls is charged with everything that had to wait for it.
    Open {
        /// How many messages.
        rate: Rate,
        /// How they follow each other.
        #[serde(default)]
        arrival: Arrival,
    },
    /// The broker (closed loop): a limited number of messages of a publisher is in flight. A message is under way until
    /// it is acknowledged (QoS 1 and 2) and the subscribers of the same process have it. At QoS 0 without such
    /// subscribers the connection alone is the brake.
    Closed {
        /// Messages under way, 1 to 65,535.
        window: u32,
    },
}

/// Messages in a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// Of each client.
    PerClient(f64),
    /// The total of the group's clients, in equal shares.
    Total(f64),
}

impl Rate {
    /// Messages of one client in a second.
    pub fn of_one(self, clients: u32) -> f64 {
        match self {
            Self::PerClient(rate) => rate,
            Self::Total(rate) => rate / f64::from(clients.max(1)),
        }
    }
}

/// How messages follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// At equal distances; the clients of a group are spread evenly over the distance.
    #[default]
    Uniform,
    /// Independent of each other, as from many independent sources.
    Poisson,
}
