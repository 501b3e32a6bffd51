//! The subscription index.

use crate::ids::hash_name;
use crate::ids::{SessionKey, ShardId, TenantId};
use crate::slab::Slab;

use super::entry::Entry;
use super::key_table::KeyTable;
use super::remote::RemoteInterest;
use super::route::{Route, Target};
use super::subscriber::{Packed, Subscriber, SubscriberOptions};
use super::trie::{NONE, Trie};
use super::{FilterKey, GroupKey};

/// All filters with an interest of this shard's sessions and groups, or of other shards.
///
/// Filters are text that the codec has checked, without `$share/GROUP/`. A filter that is the only one of an idle
/// client costs about 60 bytes and its text; a filter with wildcards about 80 more for each level that no other filter
/// shares. When the first local interest in a filter appears or the last one ends, the caller tells the other shards,
/// which note it with [`SubscriptionIndex::set_remote`].
#[derive(Debug)]
pub(crate) struct SubscriptionIndex {
    entries: Slab<Entry>,
    names: KeyTable,
    wildcards: Trie,
    /// Other shards' interest in filters without wildcards.
    remote: RemoteInterest,
    epoch: u64,
    subscriptions: u64,
    /// Bytes of the text of all filters.
    text_bytes: u64,
    /// Entries that match the topic at hand.
    matched: Vec<u32>,
    /// Nodes that were visited since they were last taken.
    visited: usize,
}

/// Bytes of a filter beside its text and its levels: its entry, and its place among the names.
const ENTRY_BYTES: u64 = size_of::<Entry>() as u64 + 8;
/// Bytes of a subscription beside its filter: its place there, and in its session.
const SUBSCRIPTION_BYTES: u64 = 16;

/// The result of [`SubscriptionIndex::subscribe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    /// The filter, by which the session remembers its subscription.
    pub(crate) entry: FilterKey,
    /// Options of the subscription that this one replaces.
    pub(crate) replaced: Option<SubscriberOptions>,
    /// True if this shard had no interest before.
    pub(crate) first_local: bool,
}

/// The result of [`SubscriptionIndex::unsubscribe`] or [`SubscriptionIndex::remove_group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsubscribed {
    /// The filter, which may be gone.
    pub(crate) entry: FilterKey,
    /// True if this shard has no interest any more.
    pub(crate) last_local: bool,
}

/// The result of [`SubscriptionIndex::add_group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupAdded {
    /// The filter.
    pub(crate) entry: FilterKey,
    /// True if this shard had no interest before.
    pub(crate) first_local: bool,
}

impl SubscriptionIndex {
    /// An index without filters.
    pub(crate) fn new() -> Self {
        Self {
            entries: Slab::new(),
            names: KeyTable::new(),
            wildcards: Trie::new(),
            remote: RemoteInterest::new(),
            epoch: 0,
            subscriptions: 0,
            text_bytes: 0,
            matched: Vec::new(),
            visited: 0,
        }
    }

    /// Grows with every change that can change a route.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of filters, including filters that only other shards want.
    #[cfg(test)]
    pub(crate) fn filters(&self) -> usize {
        self.entries.len()
    }

    /// The work of all topics that were matched since this was last called: the nodes of filters that were visited.
    #[inline]
    pub(crate) fn take_visited(&mut self) -> usize {
        std::mem::take(&mut self.visited)
    }

    /// Puts back what [`Self::take_visited`] has returned.
    pub(crate) fn put_back_visited(&mut self, visited: usize) {
        self.visited = visited;
    }

    /// Whether this number of nodes was visited since the number was last taken.
    #[inline]
    pub(crate) fn has_visited(&self, nodes: usize) -> bool {
        self.visited >= nodes
    }

    /// Number of subscriptions of sessions.
    pub(crate) fn subscriptions(&self) -> u64 {
        self.subscriptions
    }

    /// Bytes held for all filters and their subscribers, without the overhead of an allocator.
    pub(crate) fn bytes(&self) -> u64 {
        let entries = self.entries.len() as u64 * ENTRY_BYTES + self.subscriptions * SUBSCRIPTION_BYTES;
        entries + self.text_bytes + self.wildcards.bytes()
    }

    /// Number of levels kept for filters with wildcards.
    #[cfg(test)]
    pub(crate) fn trie_nodes(&self) -> usize {
        self.wildcards.nodes()
    }

    /// Adds a subscription, or replaces the session's subscription to this filter ([MQTT-3.8.4-3]).
    pub(crate) fn subscribe(&mut self, tenant: TenantId, filter: &str, subscriber: Subscriber) -> Subscribed {
        let key = self.make_entry(tenant, filter);
        let entry = &mut self.entries[key];
        let first_local = !entry.has_local();
        let new = Packed::new(subscriber);
        let replaced = entry.put(new);
        if replaced != Some(new) {
            self.epoch += 1;
        }
        self.subscriptions += u64::from(replaced.is_none());
        Subscribed { entry: FilterKey(key), replaced: replaced.map(|old| old.unpack().options), first_local }
    }

    /// Removes a session's subscription; `None` when it has none to this filter.
    pub(crate) fn unsubscribe(&mut self, tenant: TenantId, filter: &str, session: SessionKey) -> Option<Unsubscribed> {
        let key = self.find_entry(tenant, filter)?;
        self.unsubscribe_entry(FilterKey(key), session, |_, _| {})
    }

    /// Removes a session's subscription by the key of its filter. `ended` receives the filter when this shard has no
    /// interest in it any more.
    pub(crate) fn unsubscribe_entry(
        &mut self,
        filter: FilterKey,
        session: SessionKey,
        ended: impl FnOnce(TenantId, &str),
    ) -> Option<Unsubscribed> {
        let entry = self.entries.get_mut(filter.0)?;
        entry.take(session.0)?;
        let last_local = !entry.has_local();
        if last_local {
            ended(entry.tenant, &entry.filter);
        }
        self.subscriptions -= 1;
        self.epoch += 1;
        self.remove_if_empty(filter.0);
        Some(Unsubscribed { entry: filter, last_local })
    }

    /// Adds a shared group that this shard deals for. Adding it again changes nothing.
    pub(crate) fn add_group(&mut self, tenant: TenantId, filter: &str, group: GroupKey) -> GroupAdded {
        let key = self.make_entry(tenant, filter);
        let entry = &mut self.entries[key];
        let first_local = !entry.has_local();
        if entry.put_group(group) {
            self.epoch += 1;
        }
        GroupAdded { entry: FilterKey(key), first_local }
    }

    /// Removes a shared group; `None` when it was not there.
    pub(crate) fn remove_group(&mut self, tenant: TenantId, filter: &str, group: GroupKey) -> Option<Unsubscribed> {
        let key = self.find_entry(tenant, filter)?;
        let entry = &mut self.entries[key];
        if !entry.take_group(group) {
            return None;
        }
        let last_local = !entry.has_local();
        self.epoch += 1;
        self.remove_if_empty(key);
        Some(Unsubscribed { entry: FilterKey(key), last_local })
    }

    /// Notes that another shard begins or ends its interest in a filter; each shard announces an interest once and
    /// withdraws it once. Returns true if this changes the routes.
    pub(crate) fn set_remote(&mut self, tenant: TenantId, filter: &str, shard: ShardId, interested: bool) -> bool {
        if !filter.contains(['+', '#']) {
            let hash = hash_name(tenant, filter);
            let changed = if interested { self.remote.add(hash, shard) } else { self.remote.remove(hash, shard) };
            self.epoch += u64::from(changed);
            return changed;
        }
        let key = if interested {
            self.make_entry(tenant, filter)
        } else {
            match self.find_entry(tenant, filter) {
                Some(key) => key,
                None => return false,
            }
        };
        let changed = self.entries[key].set_remote(shard, interested);
        if changed {
            self.epoch += 1;
            self.remove_if_empty(key);
        }
        changed
    }

    /// Forgets all that another shard wants.
    pub(crate) fn remove_remote(&mut self, shard: ShardId) {
        self.remote.remove_all(shard);
        let wanted: Vec<u32> =
            self.entries.iter().filter(|(_, entry)| entry.is_remote(shard)).map(|(key, _)| key).collect();
        for key in wanted {
            self.entries[key].set_remote(shard, false);
            self.remove_if_empty(key);
        }
        self.epoch += 1;
    }

    /// Invalidates the routes after a change of rights.
    pub(crate) fn change_rights(&mut self) {
        self.epoch += 1;
    }

    /// The text of a filter.
    #[inline]
    pub(crate) fn filter(&self, key: FilterKey) -> Option<&str> {
        self.entries.get(key.0).map(|entry| &*entry.filter)
    }

    /// The key of a filter that someone is interested in.
    pub(crate) fn find(&self, tenant: TenantId, filter: &str) -> Option<FilterKey> {
        self.find_entry(tenant, filter).map(FilterKey)
    }

    /// A session's subscription to a filter.
    pub(crate) fn subscriber(&self, filter: FilterKey, session: SessionKey) -> Option<Subscriber> {
        self.entries.get(filter.0)?.find(session.0).map(Packed::unpack)
    }

    /// The filters that this shard is interested in itself.
    pub(crate) fn local_filters(&self) -> impl Iterator<Item = (TenantId, &str)> {
        let local = self.entries.iter().filter(|(_, entry)| entry.has_local());
        local.map(|(_, entry)| (entry.tenant, &*entry.filter))
    }

    /// Makes `out` the route of a valid topic name.
    pub(crate) fn match_topic(&mut self, tenant: TenantId, topic: &str, out: &mut Route) {
        self.find_matches(tenant, topic);
        out.clear();
        out.add_remote(self.remote.shards(hash_name(tenant, topic)));
        out.fill(&self.entries, &self.matched);
    }

    /// Finds the subscriptions that bring a session its own message: the matching ones without No Local
    /// ([MQTT-3.8.3-3]). `out` becomes the route with the target's identifiers.
    pub(crate) fn match_for_session(
        &mut self,
        tenant: TenantId,
        topic: &str,
        session: SessionKey,
        out: &mut Route,
    ) -> Option<Target> {
        self.find_matches(tenant, topic);
        out.clear();
        for key in &self.matched {
            let subscriber = self.entries[*key].find(session.0);
            if let Some(subscriber) = subscriber.filter(|found| !found.unpack().options.no_local()) {
                out.add(subscriber);
            }
        }
        out.merge();
        out.targets().first().copied()
    }

    fn find_matches(&mut self, tenant: TenantId, topic: &str) {
        self.matched.clear();
        self.matched.extend(self.find_entry(tenant, topic));
        self.visited += self.wildcards.walk(tenant, topic, |entry| self.matched.push(entry));
    }

    #[inline]
    fn find_entry(&self, tenant: TenantId, filter: &str) -> Option<u32> {
        self.names.find(hash_name(tenant, filter), |key| {
            let entry = &self.entries[key];
            *entry.filter == *filter && entry.tenant == tenant
        })
    }

    /// The entry of a filter, which is empty when it is new.
    fn make_entry(&mut self, tenant: TenantId, filter: &str) -> u32 {
        if let Some(key) = self.find_entry(tenant, filter) {
            return key;
        }
        let key = self.entries.insert(Entry::new(tenant, filter, NONE));
        self.text_bytes += filter.len() as u64;
        if filter.contains(['+', '#']) {
            self.entries[key].node = self.wildcards.insert(tenant, filter, key);
        }
        let hash_of = |key: u32| hash_name(self.entries[key].tenant, &self.entries[key].filter);
        self.names.insert(hash_name(tenant, filter), key, hash_of);
        key
    }

    fn remove_if_empty(&mut self, key: u32) {
        let entry = &self.entries[key];
        if !entry.is_empty() {
            return;
        }
        if entry.node != NONE {
            self.wildcards.remove(entry.tenant, &entry.filter, entry.node);
        }
        self.text_bytes -= entry.filter.len() as u64;
        let hash_of = |key: u32| hash_name(self.entries[key].tenant, &self.entries[key].filter);
        self.names.remove(hash_of(key), key, hash_of);
        self.entries.remove(key);
    }
}

impl Default for SubscriptionIndex {
    fn default() -> Self {
        Self::new()
    }
}
