//! An event of the flight recorder.

use std::net::IpAddr;

use tidegate_engine::{Reason, ShardId, TenantId};

use super::MAX_FLIGHT_TEXT;
use crate::admission::Network;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightKind {
    /// A client was admitted.
    Connected,
    /// A connection was refused, at accept or with its CONNECT, or broke off before it.
    Refused,
    /// A client's connection ended.
    Disconnected,
    /// A packet was refused; the connection ends.
    BadPacket,
    /// A queue is full, and its policy drops or disconnects.
    QueueFull,
    /// A message was not delivered.
    Dropped,
    /// A request of a client was denied; the client stays connected.
    Denied,
    /// A publisher waits for room.
    Delayed,
    /// A client, user or address was banned.
    Banned,
    /// A session with another node of the cluster has begun.
    NodeLinked,
    /// A session with another node of the cluster has ended.
    NodeLost,
}

impl FlightKind {
    /// The name for machines.
    pub fn label(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Refused => "refused",
            Self::Disconnected => "disconnected",
            Self::BadPacket => "bad_packet",
            Self::QueueFull => "queue_full",
            Self::Dropped => "dropped",
            Self::Denied => "denied",
            Self::Delayed => "delayed",
            Self::Banned => "banned",
            Self::NodeLinked => "node_linked",
            Self::NodeLost => "node_lost",
        }
    }

    /// True if it concerns messages, which may be very many; false if it concerns the life of a connection.
    pub(crate) fn is_of_messages(self) -> bool {
        matches!(self, Self::Dropped | Self::Denied | Self::Delayed | Self::QueueFull)
    }
}

/// An event with its client, topic and address, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlightEvent {
    /// When, milliseconds since 1970.
    pub at: u64,
    /// The shard that recorded it.
    pub shard: ShardId,
    /// The kind.
    pub kind: FlightKind,
    /// The tenant of the client, if a client is known.
    pub tenant: Option<TenantId>,
    /// The client id, at most [`MAX_FLIGHT_TEXT`] bytes of it, as of every text here.
    pub client_id: Option<Box<str>>,
    /// The topic.
    pub topic: Option<Box<str>>,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// Why.
    pub reason: Option<Reason>,
    /// Details for people; may be empty.
    pub detail: Box<str>,
    /// Events of this kind about the same client or address that were only counted before this one.
    pub suppressed: u64,
}

impl FlightEvent {
    /// An event without a subject yet.
    pub(crate) fn new(at: u64, shard: ShardId, kind: FlightKind) -> Self {
        Self {
            at,
            shard,
            kind,
            tenant: None,
            client_id: None,
            topic: None,
            address: None,
            reason: None,
            detail: "".into(),
            suppressed: 0,
        }
    }

    /// The same about a client.
    #[must_use]
    pub(crate) fn client(self, tenant: TenantId, client_id: &str) -> Self {
        Self { tenant: Some(tenant), client_id: Some(clip(client_id).into()), ..self }
    }

    /// The same about messages of a topic.
    #[must_use]
    pub(crate) fn topic(self, topic: &str) -> Self {
        Self { topic: Some(clip(topic).into()), ..self }
    }

    /// The same, after a number of events that were only counted.
    #[must_use]
    pub(crate) fn after(self, suppressed: u64) -> Self {
        Self { suppressed, ..self }
    }

    /// The same about a connection from an address.
    #[must_use]
    pub(crate) fn address(self, address: Option<IpAddr>) -> Self {
        Self { address: address.map(|address| address.to_canonical()), ..self }
    }

    /// The same with a reason.
    #[must_use]
    pub(crate) fn reason(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The same with a detail.
    #[must_use]
    pub(crate) fn detail(self, detail: &str) -> Self {
        Self { detail: clip(detail).into(), ..self }
    }
}

/// The part of a text that fits.
fn clip(text: &str) -> &str {
    let end = (0..=MAX_FLIGHT_TEXT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// The subject of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlightSubject {
    /// A client id.
    Client(Box<str>),
    /// A topic name.
    Topic(Box<str>),
    /// An address or network.
    Address(Network),
}

impl FlightSubject {
    /// Whether an event is about it.
    pub(crate) fn matches(&self, event: &FlightEvent) -> bool {
        match self {
            Self::Client(name) => event.client_id.as_deref() == Some(clip(name)),
            Self::Topic(name) => event.topic.as_deref() == Some(clip(name)),
            Self::Address(network) => event.address.is_some_and(|address| network.contains(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters_and_still_found() {
        let name = "ä".repeat(MAX_FLIGHT_TEXT);
        let event = FlightEvent::new(0, ShardId(0), FlightKind::Refused).client(TenantId::DEFAULT, &format!("x{name}"));
        assert_eq!(event.client_id.as_ref().map(|id| id.len()), Some(MAX_FLIGHT_TEXT - 1));
        assert!(FlightSubject::Client(format!("x{name}").into()).matches(&event));
        assert!(!FlightSubject::Client("x".into()).matches(&event));
    }
}
