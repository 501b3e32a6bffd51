//! Commands of a manager.

use serde_json::Value;

use super::book::Record;
use crate::provider::{Allocation, ResourceName};

/// One address of the entry point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The orchestrator.
    pub name: ResourceName,
    /// The template that it was made from.
    pub template: String,
    /// Its MQTT address: `mqtt://HOST:PORT`.
    pub address: String,
    /// Clients that it has, for the least-loaded choice.
    pub clients: u64,
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry(pub Value);

/// A command. Commands run in order, and each may be repeated; a failure is noticed at the next look.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Must be on the disk before any later command is carried out.
    Keep(Vec<Record>),
    /// Ask the provider for a resource.
    Allocate(Allocation),
    /// Have the provider take a resource away.
    Release(ResourceName),
    /// Have the provider end a dead resource at once and take it away.
    Discard(ResourceName),
    /// Make the provider end a resource and keep its stored state where it is not started again.
    SetAside(ResourceName),
    /// Add a broker to an orchestrator: `PUT /api/v1/fleet/brokers/NAME`.
    AddBroker {
        /// The orchestrator.
        at: ResourceName,
        /// The broker.
        broker: ResourceName,
        /// Dead brokers that it takes the place of: it may be where one of them was.
        replaces: Vec<ResourceName>,
    },
    /// Make an orchestrator stop sending to a broker: `POST /api/v1/fleet/brokers/NAME/drain`.
    DrainBroker {
        /// The orchestrator.
        at: ResourceName,
        /// The broker.
        broker: ResourceName,
    },
    /// Have an orchestrator forget a broker: `DELETE /api/v1/fleet/brokers/NAME`.
    RemoveBroker {
        /// The orchestrator.
        at: ResourceName,
        /// The broker.
        broker: ResourceName,
        /// Whether its pending messages go to other brokers; otherwise it must have none.
        force: bool,
    },
    /// Have an orchestrator send its clients away: `POST /api/v1/drain`.
    Evict {
        /// The orchestrator.
        at: ResourceName,
        /// The server that MQTT 5 clients are sent to, `HOST:PORT`.
        server_reference: Option<String>,
    },
    /// Have an orchestrator take clients again: `DELETE /api/v1/drain`.
    EndEviction {
        /// The orchestrator.
        at: ResourceName,
    },
    /// Have an orchestrator take a share of the partitions of the clients, or hand over all that it has:
    /// `PUT /api/v1/cluster/share`.
    SetShare {
        /// The orchestrator.
        at: ResourceName,
        /// Whether it takes one.
        wanted: bool,
    },
    /// Have the entry point answer with these endpoints.
    SetEndpoints(Vec<Endpoint>),
    /// Add to the history.
    Tell(Entry),
}

impl Command {
    /// A description for people, without addresses, which may contain passwords.
    pub fn describe(&self) -> String {
        match self {
            Self::Keep(records) => format!("keep {} records", records.len()),
            Self::Allocate(wanted) => format!("allocate {} from template {}", wanted.name, wanted.template),
            Self::Release(name) => format!("release {name}"),
            Self::Discard(name) => format!("discard {name}"),
            Self::SetAside(name) => format!("set {name} aside"),
            Self::AddBroker { at, broker, .. } => format!("add {broker} at {at}"),
            Self::DrainBroker { at, broker } => format!("drain {broker} at {at}"),
            Self::RemoveBroker { at, broker, force } => {
                format!("remove {broker} at {at}{}", if *force { ", by force" } else { "" })
            }
            Self::Evict { at, .. } => format!("evict the clients of {at}"),
            Self::EndEviction { at } => format!("end the eviction at {at}"),
            Self::SetShare { at, wanted: true } => format!("have {at} take a share of the partitions"),
            Self::SetShare { at, wanted: false } => format!("have {at} hand over its partitions"),
            Self::SetEndpoints(endpoints) => format!("set {} endpoints", endpoints.len()),
            Self::Tell(_) => "tell the history".to_owned(),
        }
    }

    /// The resource of the command, if a failure belongs to its step.
    pub fn subject(&self) -> Option<&ResourceName> {
        match self {
            Self::Allocate(wanted) => Some(&wanted.name),
            Self::Release(name) | Self::Discard(name) | Self::SetAside(name) => Some(name),
            Self::AddBroker { broker, .. } | Self::DrainBroker { broker, .. } | Self::RemoveBroker { broker, .. } => {
                Some(broker)
            }
            Self::Evict { at, .. } | Self::EndEviction { at } => Some(at),
            // Shares and the entry point are settled from look to look, and fail no action but by its time.
            Self::Keep(_) | Self::SetShare { .. } | Self::SetEndpoints(_) | Self::Tell(_) => None,
        }
    }
}
