//! Subscribers within the process: sessions without a socket, which take messages as far as they have given credit.

use std::collections::BTreeMap;

use tidegate_mqtt::QoS;

use crate::engine::Engine;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;
use crate::reason::Reason;
use crate::session::{FilterList, Session};
use crate::topics::{Subscriber, SubscriberOptions};

/// An inner subscriber of this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnerKey(u32);

/// A message for an inner subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerMessage {
    /// Topic name.
    pub topic: String,
    /// Payload.
    pub payload: Vec<u8>,
    /// QoS of the delivery.
    pub qos: QoS,
    /// RETAIN as published.
    pub retain: bool,
    /// Encoded MQTT 5 properties, as they are passed on.
    pub properties: Vec<u8>,
}

/// All inner subscribers of a shard.
#[derive(Debug, Default)]
pub(crate) struct InnerSubscribers {
    subscribers: BTreeMap<InnerKey, Inner>,
}

impl InnerSubscribers {
    /// Whether a session is an inner subscriber's: those belong to the process and never move.
    pub(crate) fn is_inner(&self, session: SessionKey) -> bool {
        self.subscribers.contains_key(&InnerKey(session.0))
    }
}

#[derive(Debug)]
struct Inner {
    /// Messages that it will still take.
    credit: u32,
}

impl Engine {
    /// Opens an inner subscriber of the given name; `None` when a session of that name exists or its home is elsewhere.
    /// Messages wait in its queue, under the limits of any session's queue, until it gives credit.
    pub fn open_inner(&mut self, now: Now, tenant: TenantId, name: &str, filters: &[(&str, QoS)]) -> Option<InnerKey> {
        if self.session_named(tenant, name).is_some() || !self.place.owns(crate::ids::partition_of(tenant, name)) {
            return None;
        }
        let session = self.desk.insert_session(Session {
            client_id: name.into(),
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: u32::MAX,
            tenant,
            listener: crate::session::INNER_LISTENER,
            receive_maximum: u16::MAX,
            rights_epoch: 0,
        });
        for (filter, qos) in filters {
            let options = SubscriberOptions::new(*qos, false, true);
            let subscribed = self.index.subscribe(tenant, filter, Subscriber { session, options, subscription_id: 0 });
            if let Some(session) = self.desk.sessions.get_mut(session.0)
                && subscribed.replaced.is_none()
            {
                session.filters.push(subscribed.entry);
            }
            if subscribed.first_local {
                self.announce_interest(tenant, filter, true, None);
                self.note_sys_interest(now, tenant, filter, true);
            }
        }
        let key = InnerKey(session.0);
        self.inner.subscribers.insert(key, Inner { credit: 0 });
        Some(key)
    }

    /// Allows an inner subscriber to be given this many messages more.
    pub fn grant_inner(&mut self, key: InnerKey, credit: u32) {
        if let Some(inner) = self.inner.subscribers.get_mut(&key) {
            inner.credit = inner.credit.saturating_add(credit);
        }
    }

    /// The next message for an inner subscriber, as far as its credit goes. Expired ones are dropped with their reason.
    pub fn poll_inner(&mut self, now: Now, key: InnerKey) -> Option<InnerMessage> {
        let inner = self.inner.subscribers.get_mut(&key)?;
        if inner.credit == 0 {
            return None;
        }
        loop {
            let flow = self.desk.sessions.get_mut(key.0)?.flow.as_mut()?;
            let delivery = flow.queue.pop_front()?;
            let cost = delivery.cost();
            flow.queue_bytes -= cost;
            self.desk.forget_queued(cost);
            if delivery.is_expired(now.monotonic) {
                self.desk.counters.drop_message(Reason::MessageExpired);
                continue;
            }
            inner.credit -= 1;
            self.desk.counters.messages_out[delivery.qos as usize] += 1;
            return Some(InnerMessage {
                topic: delivery.message.topic().to_owned(),
                payload: delivery.message.payload().to_vec(),
                qos: delivery.qos,
                retain: delivery.retain,
                properties: delivery.message.properties().to_vec(),
            });
        }
    }

    /// Closes an inner subscriber; what still waits for it is counted as dropped.
    pub fn close_inner(&mut self, now: Now, key: InnerKey) {
        if self.inner.subscribers.remove(&key).is_some() {
            self.end_session(now, SessionKey(key.0), Reason::SessionDiscarded);
        }
    }
}
