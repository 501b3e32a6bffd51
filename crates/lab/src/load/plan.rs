//! The plan of a load: data only, so that a scenario can contain it and another process can receive it.

mod group;
mod pace;
mod ramp;
mod target;
mod validate;
mod workers;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use group::{
    ClientGroup, ConnectOptions, Disturbance, Encoding, Filler, Payload, Publishing, Record, Role, Size, Slow,
    Subscribing, Topics,
};
pub use pace::{Arrival, Pace, Rate};
pub use ramp::{Begin, Ramp};
pub use target::{Credentials, Node, Protocol, Target, Transport};
pub use validate::{CLIENTS_PER_PROCESS, GroupError, PlanError};

/// Everything that a run depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    /// The broker.
    pub target: Target,
    /// The MQTT version of all clients.
    #[serde(default)]
    pub protocol: Protocol,
    /// The clients. They connect in this order, so subscribers usually precede publishers.
    pub groups: Vec<ClientGroup>,
    /// The rate of arriving clients.
    #[serde(default)]
    pub ramp: Ramp,
    /// When publishing begins.
    #[serde(default)]
    pub begin: Begin,
    /// Time from the first message on that is not measured, in milliseconds.
    #[serde(default)]
    pub warm_up_ms: u64,
    /// Time that is measured, in milliseconds. A run whose publishers have a number of messages ends earlier when all
    /// are sent.
    pub duration_ms: u64,
    /// How long after the last receipt the rest is waited for, in milliseconds.
    #[serde(default = "default_drain_ms")]
    pub drain_ms: u64,
    /// Clients that leave in a second at the end; `None` for all at once.
    #[serde(default)]
    pub teardown_per_second: Option<u32>,
    /// How long a client waits for its connection and the answer to CONNECT, in milliseconds.
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// Clients that may be on their way at a time; a broker's accept queue is short.
    #[serde(default = "default_dialing")]
    pub dialing: u32,
    /// Source addresses of clients, in turn; empty for the system's choice. An address has about 28,000 ports.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Processes that share the clients, except for groups with limits of their own.
    #[serde(default = "default_processes")]
    pub processes: u32,
    /// The seed of all random choices. It also marks the messages, so that messages of another run are recognised.
    #[serde(default)]
    pub seed: u64,
    /// Topics that systems on the way rewrite: messages are published under the first topic and
    /// received under the second.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// The age at which a message is late, in milliseconds. A late or lost message is a missed deadline (LAV-15).
    #[serde(default)]
    pub deadline_ms: Option<u64>,
}

/// The begins of topics before and behind a system that rewrites them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// How topics begin before it.
    pub from: String,
    /// And behind it.
    pub to: String,
}

fn default_drain_ms() -> u64 {
    5000
}

fn default_connect_timeout_ms() -> u64 {
    10_000
}

fn default_dialing() -> u32 {
    128
}

fn default_processes() -> u32 {
    1
}

impl LoadPlan {
    /// A plan with defaults: MQTT 3.1.1, everybody at once, no warm-up, one process.
    pub fn new(target: Target, duration_ms: u64) -> Self {
        Self {
            target,
            protocol: Protocol::default(),
            groups: Vec::new(),
            ramp: Ramp::default(),
            begin: Begin::default(),
            warm_up_ms: 0,
            duration_ms,
            drain_ms: default_drain_ms(),
            teardown_per_second: None,
            connect_timeout_ms: default_connect_timeout_ms(),
            dialing: default_dialing(),
            sources: Vec::new(),
            processes: default_processes(),
            seed: 0,
            routes: Vec::new(),
            deadline_ms: None,
        }
    }

    /// For a broker that knows no addresses: who would be reached by one subscribes, with a session that lasts.
    pub fn subscribe_to_addresses(&mut self) {
        for group in &mut self.groups {
            if let Some(subscribing) = group.role.subscribing_mut().filter(|subscribing| subscribing.addressed) {
                subscribing.addressed = false;
                group.connect.clean = false;
            }
        }
    }

    /// The plan as stored beside results, without credentials.
    #[must_use]
    pub fn without_credentials(mut self) -> Self {
        if let Some(credentials) = &mut self.target.credentials {
            "***".clone_into(&mut credentials.username);
            "***".clone_into(&mut credentials.password);
        }
        self
    }

    /// The clients of all groups.
    pub fn clients(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count)).sum()
    }
}
