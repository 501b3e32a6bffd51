//! The rights of a client: the seam to the access rules.
//!
//! The engine asks the rules for each published message, for the will at CONNECT and again when the will is published,
//! and once for each subscription. A session remembers the epoch of the rules that allowed its subscriptions. When new
//! rules come, subscriptions of older epochs are checked again in bounded steps. Forbidden subscriptions end, and
//! queued messages that may no longer be delivered are withdrawn.

pub(crate) mod rights;

use crate::access::rights::Right;
use crate::addresses::Nodes;
use crate::connection::Allowed;
use crate::events::reason::Reason;
use crate::identity::Identity;
use crate::ids::{ListenerId, SessionKey, TenantId};
use crate::publish::inbound::Inbound;
use crate::session::Session;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::topics::address_name::{Address, Statement};
use crate::topics::{RouteCache, RouteSlot};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidegate_mqtt::{QoS, Will};

/// The client that asks for a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The client's tenant.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: &'a str,
    /// The listener of its last connection.
    pub listener: ListenerId,
    /// Its identity, if a provider was asked.
    pub identity: Option<&'a Identity>,
}

/// Compiled rules. Asked on a shard's thread: answers come at once, from memory.
pub trait Access: fmt::Debug {
    /// Whether a message may be published to a topic.
    fn may_publish(&self, subject: Subject<'_>, topic: &str, qos: QoS, retain: bool) -> bool;
    /// True if the client may subscribe to a filter. For a shared subscription (`shared`) it is the filter behind the
    /// share name, and [`Access::may_receive`] is not asked: the group decides which member gets a message.
    fn may_subscribe(&self, subject: Subject<'_>, filter: &str, qos: QoS, shared: bool) -> bool;
    /// Whether a message of a topic may be delivered, to a client that was allowed to subscribe to it.
    fn may_receive(&self, subject: Subject<'_>, topic: &str) -> bool {
        let _ = (subject, topic);
        true
    }
    /// True if an explicit rule, not the default, allows a right on addresses of mobile nodes
    /// ([`AddressSettings::guarded`](crate::AddressSettings::guarded)). Asked only for actions that are otherwise
    /// allowed.
    fn has_right(&self, subject: Subject<'_>, right: Right<'_>) -> bool {
        let _ = (subject, right);
        true
    }
    /// Whether [`Access::may_receive`] ever denies. The answer is cached with the route of a topic, so that asking
    /// costs nothing per message.
    fn decides_on_delivery(&self) -> bool {
        false
    }
}

/// Withheld clients of one route that are reported.
const WITHHELD_TOLD: usize = 16;

/// The rules in force, and how far sessions were asked for again.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) access: Option<Box<dyn Access>>,
    /// Counts the rules, so that sessions of earlier ones are known by their number; 0 is that of no rules.
    pub(crate) epoch: u16,
    /// The next session to be asked for, while that is not done.
    pub(crate) recheck_from: Option<u32>,
}

impl Rules {
    /// The rules themselves, if there are any.
    pub(crate) fn access(&self) -> Option<&dyn Access> {
        self.access.as_deref()
    }

    /// Whether sessions wait for another check of their rights.
    pub(crate) fn is_rechecking(&self) -> bool {
        self.recheck_from.is_some()
    }

    /// Has every session asked for again, if there are rules.
    pub(crate) fn recheck(&mut self) {
        if self.access.is_some() {
            self.recheck_from = Some(0);
        }
    }

    /// The epoch of subscriptions that are allowed now.
    pub(crate) fn epoch(&self) -> u16 {
        self.epoch
    }
}

impl Rules {
    #[inline]
    pub(crate) fn may_publish(&self, state: &ShardState, key: SessionKey, topic: &str, qos: QoS, retain: bool) -> bool {
        if self.access.is_none() && state.settings.addresses.is_none() {
            return true;
        }
        state
            .sessions
            .get(key.0)
            .map(subject_of)
            .is_some_and(|subject| self.subject_may_publish(&state.settings, subject, topic, qos, retain))
    }

    pub(crate) fn subject_may_publish(
        &self,
        settings: &Arc<Settings>,
        who: Subject<'_>,
        topic: &str,
        qos: QoS,
        retain: bool,
    ) -> bool {
        let guarded = settings.is_guarded_for_publishers(topic, who.client_id);
        let allowed = self.access.as_ref().is_none_or(|access| access.may_publish(who, topic, qos, retain));
        allowed && (!guarded || self.has_right(who, Right::Publish { topic, qos, retain }))
    }

    /// True if the subject may read the retained message of a topic, as a subscriber to the topic could.
    pub(crate) fn subject_may_read(&self, settings: &Settings, who: Subject<'_>, topic: &str) -> bool {
        let readers = Readers::of(self, settings, topic);
        let may_subscribe = |access: &dyn Access| access.may_subscribe(who, topic, QoS::ExactlyOnce, false);
        self.access().is_none_or(may_subscribe) && readers.is_allowed_to_read(who)
    }

    /// True if no rules have to be asked whether a message may be published: there are none, or the last one of this
    /// publisher was allowed and was the same in all that rules look at.
    #[inline]
    pub(crate) fn is_known_to_be_allowed(&self, state: &ShardState, cache: &RouteCache, it: &Inbound<'_>) -> bool {
        if self.access.is_none() && state.settings.addresses.is_none() {
            return true;
        }
        let connection = state.connections.get(it.key);
        connection.and_then(|connection| connection.extra.as_ref()?.allowed) == Some(self.asked(cache, it))
    }

    /// The question to the rules about a message.
    #[inline]
    pub(crate) fn asked(&self, cache: &RouteCache, it: &Inbound<'_>) -> Allowed {
        let bits = it.raw.qos.bits() | u8::from(it.raw.retain) << 2;
        Allowed { slot: it.slot, fills: cache.fills(), bits, epoch: self.epoch() }
    }

    /// Whether a session may be sent messages of a topic.
    pub(crate) fn may_receive(&self, state: &ShardState, key: SessionKey, topic: &str) -> bool {
        let readers = Readers::of(self, &state.settings, topic);
        if readers.are_all_allowed() {
            return true;
        }
        state.sessions.get(key.0).is_some_and(|session| readers.may_be_sent(key, session))
    }

    /// Removes the receivers of a route that may not receive its topic. The route counts them with each message. They
    /// are reported whenever the route is made.
    pub(crate) fn keep_receivers(
        &self,
        state: &mut ShardState,
        cache: &mut RouteCache,
        nodes: &Nodes,
        slot: RouteSlot,
    ) {
        let (rules, settings) = (self, &state.settings);
        if Readers::of(rules, settings, cache.get(slot).0).are_all_allowed() {
            return;
        }
        let topic = cache.get(slot).0.to_owned();
        let mut readers = Readers::of(rules, settings, &topic);
        if let Some(Address::Group(name)) = &readers.address {
            readers.members = Some(nodes.members(cache.tenant(slot), name));
        }
        let sessions = &state.sessions;
        let mut withheld = Vec::new();
        cache.retain(slot, |_, key| {
            let may = sessions.get(key.0).is_some_and(|session| readers.may_be_sent(key, session));
            if !may && withheld.len() < WITHHELD_TOLD {
                withheld.push(key);
            }
            may
        });
        for key in withheld {
            state.reports().tell_withheld(key, &topic);
        }
    }

    /// The same for a client that has no session yet.
    pub(crate) fn may_leave_will(&self, settings: &Arc<Settings>, subject: Subject<'_>, will: &Will<'_>) -> bool {
        let topic = will.topic.as_str();
        self.subject_may_publish(settings, subject, topic, will.qos, will.retain)
    }

    pub(crate) fn may_subscribe(
        &self,
        state: &ShardState,
        key: SessionKey,
        filter: &str,
        qos: QoS,
        shared: bool,
    ) -> bool {
        let guarded = shared && state.settings.is_guarded_for_groups(filter);
        if self.access.is_none() && !guarded {
            return true;
        }
        let Some(subject) = state.sessions.get(key.0).map(subject_of) else { return false };
        let access = self.access.as_ref();
        access.is_none_or(|access| access.may_subscribe(subject, filter, qos, shared))
            && (!guarded || self.has_right(subject, Right::Subscribe { filter, qos }))
    }

    /// Withdraws the queued messages that a client may no longer receive. The filters of groups are checked, not their messages.
    pub(crate) fn withdraw_waiting(&self, state: &mut ShardState, key: SessionKey) {
        if let Some(session) = state.sessions.get_mut(key.0) {
            // Messages of the tail are checked when they are read from the store.
            session.forget_newest(&mut state.memory);
        }
        let queue = state.sessions.get(key.0).and_then(|session| session.flow.as_ref()).map(|flow| &flow.queue);
        let withdrawn = |delivery: &crate::session::Delivery| {
            delivery.group.is_none() && !self.may_receive(state, key, delivery.message.topic())
        };
        if !queue.is_some_and(|queue| queue.iter().any(withdrawn)) {
            return;
        }
        let (rules, settings) = (self, &state.settings);
        let Some(session) = state.sessions.get_mut(key.0) else { return };
        let Some(mut flow) = session.flow.take() else { return };
        let (stay, back): (Vec<_>, Vec<_>) = std::mem::take(&mut flow.queue).into_iter().partition(|delivery| {
            delivery.group.is_some() || Readers::of(rules, settings, delivery.message.topic()).may_be_sent(key, session)
        });
        let stored = session.stored;
        flow.queue_bytes -= back.iter().map(crate::session::Delivery::cost).sum::<u64>();
        flow.queue = stay.into_iter().collect();
        session.flow = Some(flow);
        for delivery in back {
            state.memory.forget_queued(delivery.cost());
            state.journal.forget_stored(stored, delivery.number);
            state.reports().drop_for(Reason::NotAuthorized, key, delivery.message.topic());
        }
        state.after_refill(key);
    }
}

/// The clients that may read the messages of a topic.
struct Readers<'a> {
    topic: &'a str,
    /// The rules, where they decide about single messages.
    on_delivery: Option<&'a dyn Access>,
    rules: Option<&'a dyn Access>,
    /// Set where the topic is an address.
    address: Option<Address<'a>>,
    /// Set if a client makes a statement about itself or others there.
    statement: Option<Statement<'a>>,
    /// The members of the group that it addresses, if only present members count.
    members: Option<&'a BTreeSet<u32>>,
    /// True if receivers need an explicit rule, unless the message is addressed to them or is about them.
    guarded: bool,
}

impl<'a> Readers<'a> {
    fn of(rules: &'a Rules, settings: &Settings, topic: &'a str) -> Self {
        let addresses = settings.addresses.as_ref();
        let address = addresses.and_then(|addresses| Address::read(&addresses.prefix, topic));
        let statement = addresses.and_then(|addresses| Statement::read(&addresses.prefix, topic));
        let guarded =
            (address.is_some() || statement.is_some()) && addresses.is_some_and(|addresses| addresses.guarded);
        let rules = rules.access();
        Self {
            topic,
            on_delivery: rules.filter(|rules| rules.decides_on_delivery()),
            rules,
            address,
            statement,
            members: None,
            guarded,
        }
    }

    fn are_all_allowed(&self) -> bool {
        self.on_delivery.is_none() && !self.guarded
    }

    fn may_be_sent(&self, key: SessionKey, session: &Session) -> bool {
        let addressed = self.address.as_ref().is_some_and(|address| address.is_of(session))
            || self.statement.as_ref().is_some_and(|statement| statement.is_of(&session.client_id));
        if addressed && self.members.is_none_or(|members| members.contains(&key.0)) {
            return true;
        }
        self.is_allowed_to_read(subject_of(session))
    }

    /// The same for a subject to which the message is not addressed.
    fn is_allowed_to_read(&self, subject: Subject<'_>) -> bool {
        let topic = self.topic;
        let allowed = self.on_delivery.is_none_or(|rules| rules.may_receive(subject, topic));
        let needed = || self.rules.is_some_and(|rules| rules.has_right(subject, Right::Receive { topic }));
        allowed && (!self.guarded || needed())
    }
}

/// A session as rules see it.
fn subject_of(session: &Session) -> Subject<'_> {
    Subject {
        tenant: session.tenant,
        client_id: &session.client_id,
        listener: session.listener,
        identity: session.identity.as_deref(),
    }
}
