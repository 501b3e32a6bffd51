//! An application message that is kept: queued, in flight for a lasting session, retained, or a will.

pub(crate) mod spare;

use crate::ids::TenantId;
use crate::now::Millis;
use spare::{SpareMessages, room_for};
use std::rc::Rc;
use std::sync::Arc;
use tidegate_mqtt::QoS;

/// Payloads of at least this many bytes are shared between receivers and shards instead of being copied to each.
pub(crate) const SHARED_PAYLOAD_MIN: usize = 16 * 1024;

/// Bytes of a place in a queue, towards the cost of a message.
pub(crate) const DELIVERY_BYTES: usize = 56;

/// A kept message; receivers share it.
pub(crate) type MessageRef = Rc<Message>;

/// Topic, properties and payload as published, plus the data that the engine needs to pass it on later.
#[derive(Debug)]
pub(crate) struct Message {
    /// Topic, forwarded properties and (unless shared) payload, one after the other.
    bytes: Vec<u8>,
    topic_len: u32,
    properties_len: u32,
    /// A large payload, which all holders share.
    shared: Option<Arc<[u8]>>,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// QoS of the publisher.
    pub qos: QoS,
    /// RETAIN as published.
    pub retain: bool,
    /// When it expires, or never.
    pub expires_at: Millis,
    /// Hash of the publisher's client id, for dealing within shared groups. Of a retained message in a cluster or a fleet
    /// its version.
    pub publisher: u64,
    /// Higher goes first where messages wait: 0 (ordinary) to 9.
    pub priority: u8,
}

/// A message on its way through the engine, borrowed from where its bytes arrived.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent, and each is read in another place")]
#[derive(Clone, Debug)]
pub(crate) struct Publication<'a> {
    pub tenant: TenantId,
    pub topic: &'a str,
    pub qos: QoS,
    pub retain: bool,
    /// Encoded MQTT 5 properties to pass on: all but topic alias, expiry and subscription identifiers.
    pub properties: &'a [u8],
    pub expires_at: Millis,
    pub payload: &'a [u8],
    /// The payload once more when it is large enough to be shared.
    pub shared: Option<Arc<[u8]>>,
    /// Hash of the publisher's client id.
    pub publisher: u64,
    /// Higher goes first where messages wait: 0 (ordinary) to 9. To be set before the message is kept.
    pub priority: u8,
    /// Made on the first use by [`Publication::keep`].
    kept: Option<MessageRef>,
    /// Whether several sessions may queue it, so that it is stored once for all of them.
    pub wide: bool,
    /// The number under which it is stored for all of them; 0 if it is not yet.
    pub body: u64,
    /// Whether its topic's home knows that it is retained.
    pub retain_is_done: bool,
    /// Of a message of a broker its version as a retained value; 0 of others, which are newer than all that is kept.
    pub version: u64,
    /// Whether it is a retained message that a broker of the fleet had, for new subscriptions.
    pub from_retained: bool,
    /// Whether the quota of its tenant does not refuse it as a retained message: a pipeline or a bridge of the broker
    /// published it, and would send it again without end.
    pub beyond_quota: bool,
}

impl<'a> Publication<'a> {
    #[expect(
        clippy::too_many_arguments,
        reason = "one constructor with every part named beats a builder on the message path"
    )]
    #[inline]
    pub(crate) fn new(
        tenant: TenantId,
        topic: &'a str,
        qos: QoS,
        retain: bool,
        properties: &'a [u8],
        expires_at: Millis,
        payload: &'a [u8],
        publisher: u64,
    ) -> Self {
        Self {
            tenant,
            topic,
            qos,
            retain,
            properties,
            expires_at,
            payload,
            shared: None,
            publisher,
            wide: false,
            body: 0,
            priority: 0,
            kept: None,
            retain_is_done: false,
            version: 0,
            from_retained: false,
            beyond_quota: false,
        }
    }

    /// The same message with its own expiry.
    #[must_use]
    pub(crate) fn expiring(mut self, expires_at: Millis) -> Self {
        self.expires_at = expires_at;
        self.kept = None;
        self
    }

    /// The same message under another topic, of another tenant.
    #[must_use]
    pub(crate) fn named(mut self, tenant: TenantId, topic: &'a str) -> Self {
        self.tenant = tenant;
        self.topic = topic;
        self.kept = None;
        self
    }

    /// The same message for subscribers alone: it replaces no retained value.
    #[must_use]
    pub(crate) fn unretained(mut self) -> Self {
        self.retain = false;
        self.kept = None;
        self
    }

    /// The same message with other encoded properties.
    #[must_use]
    pub(crate) fn with_properties(mut self, properties: &'a [u8]) -> Self {
        self.properties = properties;
        self.kept = None;
        self
    }

    /// The same message as something that outlives this turn; made once and shared.
    pub(crate) fn keep(&mut self) -> MessageRef {
        if let Some(kept) = &self.kept {
            return Rc::clone(kept);
        }
        let shared = self.share();
        let mut message = Message::with_room(room_for(self.inline_len()));
        self.put_into(&mut message, shared);
        let kept = Rc::new(message);
        self.kept = Some(Rc::clone(&kept));
        kept
    }

    /// The same, in memory that another message has left, if there is any.
    pub(crate) fn keep_in(&mut self, spare: &mut SpareMessages) -> MessageRef {
        if self.kept.is_none()
            && self.payload.len() < SHARED_PAYLOAD_MIN
            && let Some(mut kept) = spare.take(self.inline_len())
            && let Some(message) = Rc::get_mut(&mut kept)
        {
            self.put_into(message, None);
            self.kept = Some(Rc::clone(&kept));
            return kept;
        }
        self.keep()
    }

    /// Bytes of the message that it does not share.
    fn inline_len(&self) -> usize {
        let inline = if self.payload.len() < SHARED_PAYLOAD_MIN { self.payload.len() } else { 0 };
        self.topic.len() + self.properties.len() + inline
    }

    /// Replaces a kept message by this one. Each part is written in its place: a copy of the whole costs more.
    fn put_into(&self, kept: &mut Message, shared: Option<Arc<[u8]>>) {
        kept.bytes.clear();
        kept.bytes.extend_from_slice(self.topic.as_bytes());
        kept.bytes.extend_from_slice(self.properties);
        if shared.is_none() {
            kept.bytes.extend_from_slice(self.payload);
        }
        kept.topic_len = self.topic.len() as u32;
        kept.properties_len = self.properties.len() as u32;
        kept.shared = shared;
        kept.tenant = self.tenant;
        kept.qos = self.qos;
        kept.retain = self.retain;
        kept.expires_at = self.expires_at;
        kept.publisher = self.publisher;
        kept.priority = self.priority;
    }

    /// Bytes that a delivery of this message counts for in a queue.
    pub(crate) fn delivery_cost(&self) -> u64 {
        let bytes = self.topic.len() + self.properties.len() + self.payload.len();
        (bytes + size_of::<Message>() + 16 + DELIVERY_BYTES) as u64
    }

    /// The payload as a shared one, if it is large enough to be worth it.
    #[inline]
    pub(crate) fn share(&mut self) -> Option<Arc<[u8]>> {
        if self.payload.len() < SHARED_PAYLOAD_MIN {
            return None;
        }
        Some(Arc::clone(self.shared.get_or_insert_with(|| Arc::from(self.payload))))
    }
}

impl Message {
    /// An empty message whose bytes have this much memory.
    fn with_room(len: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(len),
            topic_len: 0,
            properties_len: 0,
            shared: None,
            tenant: TenantId::DEFAULT,
            qos: QoS::AtMostOnce,
            retain: false,
            expires_at: Millis::NEVER,
            publisher: 0,
            priority: 0,
        }
    }

    /// The topic name.
    pub(crate) fn topic(&self) -> &str {
        // The bytes were copied from a `&str`; an empty topic would be the visible sign of a broken invariant.
        std::str::from_utf8(&self.bytes[..self.topic_len as usize]).unwrap_or_default()
    }

    /// The encoded properties that are passed on.
    pub(crate) fn properties(&self) -> &[u8] {
        &self.bytes[self.topic_len as usize..(self.topic_len + self.properties_len) as usize]
    }

    /// The payload.
    pub(crate) fn payload(&self) -> &[u8] {
        match &self.shared {
            Some(shared) => shared,
            None => &self.bytes[(self.topic_len + self.properties_len) as usize..],
        }
    }

    /// Bytes that this message holds in memory, its bookkeeping included.
    pub(crate) fn cost(&self) -> u64 {
        (self.bytes.len() + self.shared.as_ref().map_or(0, |payload| payload.len()) + size_of::<Self>() + 16) as u64
    }

    /// Whether its expiry has passed.
    pub(crate) fn is_expired(&self, now: Millis) -> bool {
        self.expires_at <= now
    }

    /// The message as a publication, for passing it on again.
    pub(crate) fn publication(self: &Rc<Self>) -> Publication<'_> {
        Publication {
            tenant: self.tenant,
            topic: self.topic(),
            qos: self.qos,
            retain: self.retain,
            properties: self.properties(),
            expires_at: self.expires_at,
            payload: self.payload(),
            shared: self.shared.clone(),
            publisher: self.publisher,
            priority: self.priority,
            kept: Some(Rc::clone(self)),
            wide: false,
            body: 0,
            retain_is_done: false,
            version: 0,
            from_retained: false,
            beyond_quota: false,
        }
    }
}

/// Highest priority of a message; 0 is the least and the ordinary one.
pub(crate) const PRIORITY_MAX: u8 = 9;
