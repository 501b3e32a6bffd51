//! Subscribers within the process: sessions without a socket, which take messages as far as they have given credit.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_mqtt::{QoS, TopicFilter};

use crate::engine::Engine;
use crate::homes::Home;
use crate::ids::{SessionKey, TenantId, partition_of};
use crate::now::{Millis, Now};
use crate::reason::Reason;
use crate::session::{Delivery, FilterList, INNER_LISTENER, Session, Standing};
use crate::topics::{Subscriber, SubscriberOptions};

/// An inner subscriber of this shard. Keys of closed ones are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnerKey {
    session: u32,
    number: u64,
}

/// Why an inner subscriber was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InnerError {
    /// A client or another inner subscriber has a session of this name.
    NameTaken,
    /// The home of the name is another shard: open it there.
    NotAtHome,
    /// Not a topic filter, or one of a shared subscription.
    InvalidFilter(String),
}

impl fmt::Display for InnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken => f.write_str("a session of this name exists; choose another name"),
            Self::NotAtHome => f.write_str("the home of this name is another shard"),
            Self::InvalidFilter(filter) => write!(f, "not a topic filter of an ordinary subscription: {filter:?}"),
        }
    }
}

impl std::error::Error for InnerError {}

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
    /// When it expires, or [`Millis::NEVER`].
    pub expires_at: Millis,
}

/// All inner subscribers of a shard, by their sessions.
#[derive(Debug, Default)]
pub(crate) struct InnerSubscribers {
    by_session: BTreeMap<u32, Inner>,
    next: u64,
}

#[derive(Debug)]
struct Inner {
    number: u64,
    /// Messages that it will still take.
    credit: u32,
}

impl InnerSubscribers {
    /// Whether a session is an inner subscriber's: those belong to the process and never move.
    pub(crate) fn is_inner(&self, session: SessionKey) -> bool {
        self.by_session.contains_key(&session.0)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_session.len()
    }

    fn add(&mut self, session: SessionKey) -> InnerKey {
        let number = self.next;
        self.next += 1;
        self.by_session.insert(session.0, Inner { number, credit: 0 });
        InnerKey { session: session.0, number }
    }

    fn get_mut(&mut self, key: InnerKey) -> Option<&mut Inner> {
        self.by_session.get_mut(&key.session).filter(|inner| inner.number == key.number)
    }
}

impl Engine {
    /// Opens an inner subscriber of the given name.
    ///
    /// Messages wait in its queue until it gives credit. The limits of any session's queue hold for it, and so does their
    /// policy, but that there is nothing to disconnect. No rules are asked: it is a part of the broker. A client cannot
    /// connect under its name. Retained messages are not brought to it.
    ///
    /// # Errors
    ///
    /// When the name is taken or at home elsewhere, or a filter is not valid; nothing is opened then.
    pub fn open_inner(
        &mut self,
        now: Now,
        tenant: TenantId,
        name: &str,
        filters: &[(&str, QoS)],
    ) -> Result<InnerKey, InnerError> {
        let partition = partition_of(tenant, name);
        if !self.place.owns(partition) || self.home_of(partition) != Home::Here {
            return Err(InnerError::NotAtHome);
        }
        if self.session_named(tenant, name).is_some() {
            return Err(InnerError::NameTaken);
        }
        let invalid = |text: &str| TopicFilter::new(text).map_or(true, |filter| filter.shared().is_some());
        if let Some((filter, _)) = filters.iter().find(|(filter, _)| invalid(filter)) {
            return Err(InnerError::InvalidFilter((*filter).to_owned()));
        }
        let session = self.desk.insert_session(Session {
            client_id: name.into(),
            connection: None,
            filters: FilterList::default(),
            flow: None,
            rare: None,
            expiry_seconds: u32::MAX,
            tenant,
            listener: INNER_LISTENER,
            receive_maximum: u16::MAX,
            rights_epoch: 0,
            standing: Standing::Client,
            stored: None,
            identity: None,
        });
        for (filter, qos) in filters {
            let options = SubscriberOptions::new(*qos, false, true);
            self.adopt_subscription(now, tenant, filter, Subscriber { session, options, subscription_id: 0 });
        }
        Ok(self.inner.add(session))
    }

    /// Allows an inner subscriber to be given this many messages more.
    pub fn grant_inner(&mut self, key: InnerKey, credit: u32) {
        if let Some(inner) = self.inner.get_mut(key) {
            inner.credit = inner.credit.saturating_add(credit);
        }
    }

    /// The next message for an inner subscriber, as far as its credit goes. The broker is done with it: whoever takes it
    /// answers for it. Expired ones are dropped with their reason and cost no credit.
    pub fn poll_inner(&mut self, now: Now, key: InnerKey) -> Option<InnerMessage> {
        let inner = self.inner.get_mut(key).filter(|inner| inner.credit > 0)?;
        let delivery = self.desk.take_queued(now.monotonic, SessionKey(key.session))?;
        inner.credit -= 1;
        // Publishers that its full queue had to hold up may go on.
        self.after_frame(now);
        Some(message_of(&delivery))
    }

    /// Closes an inner subscriber; what still waits for it is counted as dropped.
    pub fn close_inner(&mut self, now: Now, key: InnerKey) {
        if self.inner.get_mut(key).is_some() {
            self.inner.by_session.remove(&key.session);
            self.end_session(now, SessionKey(key.session), Reason::SessionDiscarded);
            self.after_frame(now);
        }
    }
}

impl crate::desk::Desk {
    /// Takes the oldest message of a queue that has not expired.
    fn take_queued(&mut self, now: Millis, from: SessionKey) -> Option<Delivery> {
        let mut taken = None;
        while taken.is_none()
            && let Some(delivery) = self.pop_queued(from)
        {
            if delivery.is_expired(now) {
                self.drop_for(Reason::MessageExpired, from, delivery.message.topic());
            } else {
                self.counters.messages_out[delivery.qos as usize] += 1;
                self.counters.payload_bytes_out += delivery.message.payload().len() as u64;
                taken = Some(delivery);
            }
        }
        self.after_refill(from);
        taken
    }
}

fn message_of(delivery: &Delivery) -> InnerMessage {
    InnerMessage {
        topic: delivery.message.topic().to_owned(),
        payload: delivery.message.payload().to_vec(),
        qos: delivery.qos,
        retain: delivery.retain,
        properties: delivery.message.properties().to_vec(),
        expires_at: delivery.message.expires_at,
    }
}
