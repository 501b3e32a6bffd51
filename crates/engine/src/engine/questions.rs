//! The present state of a shard: counters, sums, usage.

use std::collections::BTreeMap;

use crate::engine::facets::ShardQuestions;
use crate::events::counters::Counters;
use crate::events::counters::Gauges;
use crate::ids::TenantId;
use crate::limits::usage::{MAX_METERED_USERS, Usage};
use crate::now::Now;

impl<'e> ShardQuestions<'e> {
    /// This shard's counters.
    pub fn counters(&self) -> &'e Counters {
        &self.engine.state.counters
    }

    /// The present gauges.
    pub fn gauges(&self) -> Gauges {
        let state = &self.engine.state;
        let broker_links = &self.engine.broker_links;
        let connected = state.sessions_connected - broker_links.brokers.connected() as u64;
        let (mut inflight_messages, mut absent_messages) = (0, 0);
        for (session, flow) in state.sessions.iter().filter_map(|(_, session)| Some((session, session.flow.as_ref()?)))
        {
            inflight_messages += flow.inflight.len() as u64;
            if session.connection.is_none() && session.stored.is_some() && !session.is_broker_link() {
                let tail = flow.tail.as_ref().map_or(0, |tail| tail.messages);
                absent_messages += (flow.inflight.len() + flow.queue.len()) as u64 + tail;
            }
        }
        Gauges {
            connections: (state.connections.len() - self.engine.services.principals.len()) as u64,
            sessions_connected: connected,
            sessions_disconnected: (state.sessions.len() - broker_links.brokers.len()) as u64 - connected,
            subscriptions: self.engine.router.index.subscriptions(),
            shared_subscriptions: state.shared_memberships,
            retained_messages: self.engine.retaining.store.values.len(),
            retained_bytes: self.engine.retaining.store.values.bytes(),
            queued_messages: state.memory.queued_messages,
            queued_bytes: state.memory.queued_bytes,
            stored_messages: state.memory.stored_messages,
            stored_bytes: state.memory.stored_bytes,
            inflight_messages,
            absent_messages,
            input_bytes: state.memory.input_bytes,
            link_bytes: self.engine.links.bytes(),
            kept_deals: self.engine.groups.kept.len() as u64,
        }
    }

    /// The usage of each tenant on this shard, in the order of their numbers; tenants without any are left out. Looks
    /// at every session.
    pub fn usage(&self, now: Now) -> Vec<(TenantId, Usage)> {
        let mut all: Vec<Usage> = Vec::new();
        for (tenant, _, usage) in self.engine.state.meters.read(now.monotonic) {
            let place = usize::from(tenant.0);
            if place >= all.len() {
                all.resize(place + 1, Usage::default());
            }
            if let Some(sum) = all.get_mut(place) {
                sum.add(&usage);
            }
        }
        for (_, session) in self.engine.state.sessions.iter() {
            let payer = session.payer(&self.engine.state.settings);
            if payer == TenantId::BROKER_LINK {
                continue;
            }
            let place = usize::from(payer.0);
            if place >= all.len() {
                all.resize(place + 1, Usage::default());
            }
            if let Some(usage) = all.get_mut(place) {
                usage.sessions += 1;
                usage.stored_bytes += session.flow.as_ref().map_or(0, |flow| flow.waiting().1);
            }
        }
        for (tenant, bytes) in self.engine.retaining.store.values.bytes_of_tenants() {
            let place = usize::from(tenant.0);
            if place >= all.len() && tenant != TenantId::BROKER_LINK {
                all.resize(place + 1, Usage::default());
            }
            if let Some(usage) = all.get_mut(place) {
                usage.retained_bytes = bytes;
            }
        }
        let numbered = (0..).map(TenantId).zip(all);
        numbered.filter(|(_, usage)| *usage != Usage::default()).collect()
    }

    /// The usage of each user on this shard, by tenant and user name. The name is empty for clients without one, and for
    /// users beyond [`MAX_METERED_USERS`](crate::MAX_METERED_USERS). Retained messages do not count. Empty unless
    /// [`Settings::usage_by_user`](crate::Settings::usage_by_user). Looks at every session.
    pub fn usage_by_user(&self, now: Now) -> Vec<(TenantId, Box<str>, Usage)> {
        if !self.engine.state.settings.usage_by_user {
            return Vec::new();
        }
        let mut all: BTreeMap<(TenantId, &str), Usage> = BTreeMap::new();
        for (tenant, user, usage) in self.engine.state.meters.read(now.monotonic) {
            all.entry((tenant, user)).or_default().add(&usage);
        }
        for (_, session) in self.engine.state.sessions.iter() {
            let tenant = session.payer(&self.engine.state.settings);
            if tenant == TenantId::BROKER_LINK {
                continue;
            }
            let user = session.identity.as_ref().and_then(|identity| identity.user_name.as_deref()).unwrap_or_default();
            let user = if all.contains_key(&(tenant, user)) || all.len() < MAX_METERED_USERS { user } else { "" };
            let usage = all.entry((tenant, user)).or_default();
            usage.sessions += 1;
            usage.stored_bytes += session.flow.as_ref().map_or(0, |flow| flow.waiting().1);
        }
        all.into_iter().map(|((tenant, user), usage)| (tenant, user.into(), usage)).collect()
    }

    /// Bytes that this shard holds, as far as it keeps sums of them: messages, connections and sessions, retained
    /// messages, subscriptions, and records for other shards. Takes constant time.
    pub fn held_bytes(&self) -> u64 {
        let sessions = self.engine.state.sessions.len() as u64 * SESSION_BYTES;
        self.engine.state.memory.taken()
            + self.engine.retaining.store.values.bytes()
            + self.engine.router.index.bytes()
            + self.engine.links.bytes()
            + sessions
    }
}

/// The assumed bytes of a session beside its messages and subscriptions.
const SESSION_BYTES: u64 = 512;
