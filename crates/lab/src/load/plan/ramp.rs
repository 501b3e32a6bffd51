//! The arrival of clients, and the begin of messages.

use serde::{Deserialize, Serialize};

/// The rate of arriving clients. The number of connects in progress is always bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Ramp {
    /// As fast as the broker takes them.
    #[default]
    AtOnce,
    /// Evenly: a number per second.
    PerSecond(f64),
    /// In steps, as a ladder: a number at once, then a pause.
    Steps {
        /// Clients of a step.
        clients: u32,
        /// From the begin of one step to that of the next, in milliseconds.
        every_ms: u64,
    },
}

impl Ramp {
    /// When the client with this number is to dial, in nanoseconds after the first.
    pub fn dials_at(self, client: u64) -> u64 {
        match self {
            Self::AtOnce => 0,
            #[expect(clippy::cast_precision_loss, reason = "far fewer clients than a float counts exactly")]
            #[expect(clippy::cast_sign_loss, reason = "a rate is positive")]
            Self::PerSecond(rate) => (client as f64 / rate * 1e9) as u64,
            Self::Steps { clients, every_ms } => client / u64::from(clients.max(1)) * every_ms * 1_000_000,
        }
    }
}

/// When publishing begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Begin {
    /// When all clients are connected and subscribed, or have failed to be. Every message is then due to every
    /// subscriber.
    #[default]
    WhenReady,
    /// With the first client: publishers publish as soon as they are connected. To a subscriber that comes later,
    /// messages are due from the first that it receives.
    AtOnce,
}
