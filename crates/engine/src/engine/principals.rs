//! Principals come and go, publish and read.

use crate::connection::{Connection, Phase};
use crate::engine::facets::{InsiderCalls, ShardQuestions};
use crate::events::reason::Reason;
use crate::flows::contexts::answering;
use crate::flows::contexts::parking;
use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER, PrincipalId};
use crate::now::Now;
use crate::principals::{Held, Principal, PrincipalKind, Registered, RetainedValue};
use crate::publish::pipeline::Progress;
use crate::service::InnerPublication;
use crate::timers::Timer;
use crate::topics::origin::without_origin;
use std::collections::VecDeque;
use tidegate_mqtt::{PacketId, RawPublish, TopicName, Version};

impl InsiderCalls<'_> {
    /// Registers a principal at this shard.
    pub fn add_principal(&mut self, now: Now, principal: Principal) -> PrincipalId {
        let mut connection = Connection::new(PRINCIPAL_LISTENER, principal.tenant, now.monotonic);
        connection.phase = Phase::Open;
        connection.version = Version::V5;
        let key = self.engine.state.connections.insert(connection);
        self.engine.state.event_limit.name_principal(key, &principal.name);
        let (held, answering) = (VecDeque::new(), VecDeque::new());
        self.engine
            .services
            .principals
            .all
            .insert(key, Registered { principal, held, held_bytes: 0, answering, uncommitted: 0 });
        PrincipalId(key)
    }

    /// Forgets a principal. Its unanswered messages are answered with [`Reason::ConnectionLost`].
    pub fn remove_principal(&mut self, now: Now, id: PrincipalId) {
        let PrincipalId(key) = id;
        answering!(self.engine).refuse_all_of_principal(key, Reason::ConnectionLost);
        if self.engine.services.principals.all.remove(&key).is_none() {
            return;
        }
        self.engine.state.event_limit.forget_principal(key);
        self.engine.links.forget_waiting(key);
        self.engine.services.observers.forget_waiting(key);
        self.engine.groups.dealers.waiting.remove(&key);
        self.engine.broker_links.forget_waiting(key);
        if let Some(connection) = self.engine.state.connections.remove(key)
            && let Some(extra) = connection.extra
        {
            self.engine.pipeline().end_admission(key, &extra);
            if let Some(parked) = &extra.parked {
                self.engine.state.timers.cancel(parked.until, Timer::Parked(key));
            }
            if let Some(rate) = &extra.rate {
                self.engine.state.timers.cancel(rate.waits_until, Timer::Rate(key));
            }
        }
        self.engine.after_frame(now);
    }

    /// Publishes a message as a principal. [`Event::Published`](crate::Event::Published) has the number and the
    /// outcome, as a PUBACK would, when that is certain: all its shards have it, and it is committed where it is
    /// stored.
    pub fn publish_as(&mut self, now: Now, id: PrincipalId, message: InnerPublication, number: u64) {
        let PrincipalId(key) = id;
        self.engine.state.journal.now = now;
        let held = Held { number, message };
        let Some(registered) = self.engine.services.principals.all.get(&key) else {
            return answering!(self.engine).tell_published(id, number, Err(Reason::ConnectionLost));
        };
        let waits = !registered.held.is_empty() || self.engine.state.connections.is_parked(key);
        if waits || self.publish_held_by(now, key, &held) == Progress::Deferred {
            self.hold(key, held);
        }
        self.engine.after_frame(now);
    }
}

impl ShardQuestions<'_> {
    /// The retained message of a topic, if a principal may subscribe to it. Ask the shard that is the topic's home.
    ///
    /// # Errors
    ///
    /// [`Reason::NotAuthorized`] if it may not, [`Reason::InvalidTopicName`] if there can be no such topic, and
    /// [`Reason::NotServedHere`] if another shard or node is the home of the topic.
    pub fn retained_for(&self, now: Now, principal: &Principal, topic: &str) -> Result<Option<RetainedValue>, Reason> {
        TopicName::new(topic).map_err(|_| Reason::InvalidTopicName)?;
        let subject = principal.subject();
        if principal.kind == PrincipalKind::User
            && !self.engine.rules.subject_may_read(&self.engine.state.settings, subject, topic)
        {
            return Err(Reason::NotAuthorized);
        }
        if self.engine.links.roster.home_of_topic(principal.tenant, topic) != self.engine.place.shard {
            return Err(Reason::NotServedHere);
        }
        let message = self.engine.retaining.store.values.get(principal.tenant, topic, now.monotonic);
        Ok(message.map(|message| {
            let publication = message.publication();
            RetainedValue {
                qos: publication.qos,
                properties: without_origin(publication.properties).to_vec(),
                expires_at: publication.expires_at,
                payload: publication.payload.to_vec(),
            }
        }))
    }
}

impl InsiderCalls<'_> {
    /// Takes one message of a principal through the pipeline.
    fn publish_held_by(&mut self, now: Now, key: ConnectionKey, held: &Held) -> Progress {
        let Held { number, message } = held;
        let Some(registered) = self.engine.services.principals.all.get_mut(&key) else { return Progress::Taken };
        let is_broker = registered.principal.kind == PrincipalKind::Broker;
        let refused = if !is_broker && message.tenant != registered.principal.tenant {
            Some(Reason::NotAuthorized)
        } else if message.retain && !self.engine.state.settings.retained.available && !is_broker {
            Some(Reason::RetainNotSupported)
        } else if self.engine.homes.have_ended() {
            // Another node may have taken over, so promises made now may be lost.
            Some(Reason::LeaseEnded)
        } else if message.topic.is_empty() {
            Some(Reason::InvalidTopicName)
        } else if message.expires_at <= now.monotonic {
            Some(Reason::MessageExpired)
        } else {
            self.engine.state.memory.is_far_over_ceiling().then_some(Reason::MemoryCeiling)
        };
        if let Some(reason) = refused {
            answering!(self.engine).refuse_publication(PrincipalId(key), *number, reason);
            return Progress::Taken;
        }
        registered.answering.push_back(*number);
        let raw = RawPublish {
            dup: false,
            qos: message.qos,
            retain: message.retain && self.engine.state.settings.retained.available,
            topic: message.topic.as_bytes(),
            // All that it publishes is answered, QoS 0 included.
            packet_id: Some(PacketId::MIN),
            properties: &message.properties,
            payload: &message.payload,
        };
        self.engine.state.counters.messages_in[raw.qos as usize] += 1;
        self.engine.state.counters.payload_bytes_in += raw.payload.len() as u64;
        let payer = self.engine.state.connections.payer_of(key);
        self.engine.state.meters.of(payer).messages_in += 1;
        let mut properties = std::mem::take(&mut self.engine.layouts.properties);
        properties.clear();
        let source = (key, None, message.tenant);
        let progress =
            self.engine.pipeline().publish_with_properties(now, source, &raw, message.expires_at, &mut properties);
        self.engine.layouts.properties = properties;
        match progress {
            Ok(Progress::Taken) => {
                if !is_broker && self.engine.state.tenants.limit_rates() {
                    parking!(self.engine).charge_rate(now, key, message.topic.len() + message.payload.len());
                }
                return Progress::Taken;
            }
            Ok(Progress::Deferred) => {}
            Err(ref refused) => answering!(self.engine).refuse_publication(PrincipalId(key), *number, refused.reason),
        }
        if let Some(registered) = self.engine.services.principals.all.get_mut(&key) {
            registered.answering.pop_back();
        }
        progress.unwrap_or(Progress::Taken)
    }

    /// Keeps a message until the principal may go on, or refuses it.
    fn hold(&mut self, key: ConnectionKey, held: Held) {
        let Some(registered) = self.engine.services.principals.all.get_mut(&key) else { return };
        let cost = held.cost();
        let bytes = registered.held_bytes + cost;
        if registered.held.len() >= registered.principal.max_held_messages
            || bytes > registered.principal.max_held_bytes
        {
            return answering!(self.engine).refuse_publication(PrincipalId(key), held.number, Reason::PublisherHeld);
        }
        registered.held_bytes = bytes;
        registered.held.push_back(held);
        self.engine.state.memory.held += cost;
        self.engine.state.memory.input_bytes += cost;
    }

    /// A principal need not wait any more: its held messages are published until it has to wait again.
    pub(crate) fn resume_principal(&mut self, now: Now, key: ConnectionKey) {
        while !self.engine.state.connections.is_parked(key)
            && let Some(held) = answering!(self.engine).take_held(key)
        {
            if self.publish_held_by(now, key, &held) == Progress::Deferred {
                let cost = held.cost();
                let Some(registered) = self.engine.services.principals.all.get_mut(&key) else { return };
                registered.held_bytes += cost;
                registered.held.push_front(held);
                self.engine.state.memory.held += cost;
                self.engine.state.memory.input_bytes += cost;
                return;
            }
            self.engine.services.observers.end_giving_up(key);
            self.engine.after_frame(now);
        }
    }
}
