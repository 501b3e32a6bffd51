//! Calls of services within the process beside subscriptions: publish, ask who is connected, ping, and send clients
//! elsewhere.

use crate::ids::{SessionKey, TenantId};
use crate::message::Publication;
use crate::now::Millis;
use crate::session::Session;
use crate::session::table::Sessions;
use tidegate_mqtt::QoS;

/// A message that a part of the broker publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerPublication {
    /// The tenant in which it is published.
    pub tenant: TenantId,
    /// The topic name.
    pub topic: String,
    /// How surely it is delivered, as far as subscriptions allow.
    pub qos: QoS,
    /// Whether it is kept for later subscribers; an empty payload ends that.
    pub retain: bool,
    /// Encoded MQTT 5 properties that are passed on: all but topic alias, expiry and subscription identifiers.
    pub properties: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
    /// When it expires, or [`Millis::NEVER`].
    pub expires_at: Millis,
}

impl InnerPublication {
    /// As it goes through the engine, where retained messages are available or not.
    pub(crate) fn publication(&self, retained: bool) -> Publication<'_> {
        let (topic, payload) = (self.topic.as_str(), self.payload.as_slice());
        let retain = self.retain && retained;
        Publication::new(self.tenant, topic, self.qos, retain, &self.properties, self.expires_at, payload, 0)
    }
}

impl Sessions {
    /// Whether a connected client has not acknowledged a packet.
    pub(crate) fn is_under_way(&self, key: SessionKey, id: u16) -> bool {
        let session = self.get(key.0).filter(|session| session.connection.is_some());
        let flow = session.and_then(|session| session.flow.as_ref());
        flow.is_some_and(|flow| flow.inflight.iter().any(|sent| sent.id().get() == id))
    }
}

impl Session {
    /// True if a client is connected, and nothing is queued for it or under way to it.
    pub(crate) fn is_connected_and_idle(&self) -> bool {
        let idle = self.flow.as_ref().is_none_or(|flow| flow.inflight.is_empty() && flow.queue.is_empty());
        self.connection.is_some() && idle
    }
}
