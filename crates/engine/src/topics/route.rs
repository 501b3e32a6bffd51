//! The receivers of a message to some topic.

use tidegate_mqtt::QoS;

use crate::ids::SessionKey;
#[cfg(test)]
use crate::ids::ShardId;
use crate::slab::Slab;

use super::GroupKey;
use super::entry::Entry;
use super::subscriber::{Packed, SubscriberOptions};

/// Everyone on this shard and beyond who gets a message: each session once, with its matching subscriptions merged.
#[derive(Debug, Default)]
pub(crate) struct Route {
    targets: Vec<Target>,
    /// Identifiers of targets that have several: their number, followed by themselves.
    ids: Vec<u32>,
    groups: Vec<GroupKey>,
    remote: u64,
    withheld: u32,
    no_local: bool,
}

/// A session that gets the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The receivers.
    pub(crate) session: SessionKey,
    /// The only identifier (0 for none), or where several stand in the route.
    id: u32,
    /// How: merged over all subscriptions that match.
    pub(crate) options: SubscriberOptions,
    several_ids: bool,
}

const _: () = assert!(size_of::<Target>() == 12, "a cached route of a crowd is made of these");

impl Target {
    /// The highest QoS that the session is sent.
    #[inline]
    pub(crate) fn qos(&self) -> QoS {
        self.options.qos()
    }
}

impl Route {
    /// The sessions of this shard, each once.
    #[inline]
    pub(crate) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// All identifiers of the subscriptions that a target is sent the message for ([MQTT-3.3.4-3]).
    #[inline]
    pub(crate) fn subscription_ids<'a>(&'a self, target: &'a Target) -> &'a [u32] {
        if target.several_ids {
            let start = target.id as usize;
            let len = self.ids.get(start).map_or(0, |len| *len as usize);
            self.ids.get(start + 1..start + 1 + len).unwrap_or_default()
        } else if target.id == 0 {
            &[]
        } else {
            std::slice::from_ref(&target.id)
        }
    }

    /// The shared groups dealt by this shard.
    #[inline]
    pub(crate) fn groups(&self) -> &[GroupKey] {
        &self.groups
    }

    /// Whether only sessions of this shard get the message.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.groups.is_empty() && self.remote == 0
    }

    /// The only receiver, where that is a shared group dealt by this shard.
    #[inline]
    pub(crate) fn sole_group(&self) -> Option<GroupKey> {
        match self.groups[..] {
            [group] if self.targets.is_empty() && self.remote == 0 => Some(group),
            _ => None,
        }
    }

    /// The other shards that want the message, one bit each.
    #[inline]
    pub(crate) fn remote_bits(&self) -> u64 {
        self.remote
    }

    /// The other shards that want the message, in ascending order.
    #[inline]
    #[cfg(test)]
    pub(crate) fn remote_shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        let mut bits = self.remote;
        std::iter::from_fn(move || {
            let shard = bits.trailing_zeros();
            if shard == u64::BITS {
                return None;
            }
            bits &= bits - 1;
            Some(ShardId(shard as u16))
        })
    }

    /// Whether any subscription has No Local set. Only then can the publisher itself need
    /// [`SubscriptionIndex::match_for_session`](super::SubscriptionIndex::match_for_session).
    #[inline]
    pub(crate) fn has_no_local(&self) -> bool {
        self.no_local
    }

    /// True if the message has no receiver.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.groups.is_empty() && self.remote == 0
    }

    /// Keeps the sessions that `keep` accepts.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(SessionKey) -> bool) {
        let before = self.targets.len();
        self.targets.retain(|target| keep(target.session));
        self.withheld = (before - self.targets.len()) as u32;
    }

    /// How many sessions of this shard subscribed and may not be sent the message.
    #[inline]
    pub(crate) fn withheld(&self) -> u32 {
        self.withheld
    }

    /// Forgets everyone but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.targets.clear();
        self.ids.clear();
        self.groups.clear();
        self.remote = 0;
        self.withheld = 0;
        self.no_local = false;
    }

    /// Adds other shards that want the message, one bit each.
    pub(crate) fn add_remote(&mut self, shards: u64) {
        self.remote |= shards;
    }

    /// Leaves out all shards except these.
    pub(crate) fn keep_remote(&mut self, shards: u64) {
        self.remote &= shards;
    }

    /// Fills an empty route from the entries that match.
    pub(super) fn fill(&mut self, entries: &Slab<Entry>, matched: &[u32]) {
        let mut with_subscribers = 0;
        for key in matched {
            let entry = &entries[*key];
            self.remote |= entry.remote();
            self.groups.extend_from_slice(entry.groups());
            let subscribers = entry.subscribers();
            if subscribers > 0 {
                with_subscribers += 1;
                self.targets.reserve(subscribers);
                entry.for_each(|subscriber| self.add(subscriber));
            }
        }
        if with_subscribers > 1 {
            self.merge();
        }
    }

    /// Adds a subscription that may be merged with others of its session later.
    #[inline]
    pub(super) fn add(&mut self, subscriber: Packed) {
        let subscriber = subscriber.unpack();
        self.no_local |= subscriber.options.no_local();
        self.targets.push(Target {
            session: subscriber.session,
            id: subscriber.subscription_id,
            options: subscriber.options,
            several_ids: false,
        });
    }

    /// Puts sessions in the place of their common target, each at its highest QoS.
    pub(crate) fn replace_target(&mut self, stand_in: SessionKey, sessions: impl IntoIterator<Item = SessionKey>) {
        self.targets.retain(|target| target.session != stand_in);
        let options = SubscriberOptions::new(QoS::ExactlyOnce, false, false);
        self.targets.extend(sessions.into_iter().map(|session| Target { session, id: 0, options, several_ids: false }));
        if self.targets.len() > 1 {
            self.merge();
        }
    }

    /// Makes one target of all that a session has.
    pub(super) fn merge(&mut self) {
        // The targets are runs that are sorted each, which a stable sort takes advantage of.
        self.targets.sort_by_key(|target| target.session);
        let mut kept = 0;
        let mut start = 0;
        while let Some(first) = self.targets.get(start).copied() {
            let run = self.targets[start..].iter();
            let len = run.take_while(|target| target.session == first.session).count();
            self.targets[kept] = if len == 1 { first } else { self.merge_run(start, len) };
            kept += 1;
            start += len;
        }
        self.targets.truncate(kept);
    }

    fn merge_run(&mut self, start: usize, len: usize) -> Target {
        let run = &self.targets[start..start + len];
        let mut merged = run[0];
        for target in &run[1..] {
            merged.options = merged.options.merge(target.options);
        }
        let ids = run.iter().map(|target| target.id).filter(|id| *id != 0);
        match ids.clone().count() {
            0 => {}
            1 => merged.id = ids.max().unwrap_or_default(),
            several => {
                merged.id = self.ids.len() as u32;
                merged.several_ids = true;
                self.ids.push(several as u32);
                self.ids.extend(ids);
            }
        }
        merged
    }

    /// Size in units of about a dozen bytes.
    pub(super) fn weight(&self) -> usize {
        self.targets.len() + self.ids.len() + self.groups.len()
    }

    /// The [`Route::weight`] that is possible without a further allocation.
    pub(super) fn capacity(&self) -> usize {
        self.targets.capacity() + self.ids.capacity() + self.groups.capacity()
    }

    /// Gives memory back that was needed for a much larger route.
    pub(super) fn settle(&mut self) {
        if self.capacity() > 64 && self.capacity() / 4 > self.weight() {
            self.targets.shrink_to_fit();
            self.ids.shrink_to_fit();
            self.groups.shrink_to_fit();
        }
    }
}
