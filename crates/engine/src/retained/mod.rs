//! Retained messages of a shard.

use crate::message::MessageRef;

pub(crate) mod fetch;
pub(crate) mod removed;
mod seek;
mod store;
pub(crate) mod strays;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::events::reason::Reason;
use crate::ids::TenantId;
use crate::now::Millis;
use crate::settings::{Holding, Settings, TenantLedger};

use self::fetch::Fetches;
use self::seek::{Judgement, judge};
pub(crate) use self::store::RetainedStore;

/// The retained messages of a shard, and the fetches that bring them to subscriptions.
#[derive(Debug)]
pub(crate) struct Retaining {
    pub(crate) store: RetainedStore,
    pub(crate) fetches: Fetches,
}

impl Retaining {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { store: RetainedStore::new(settings), fetches: Fetches::new(settings.retained.step) }
    }
}

/// The properties of a message for a table of retained messages. Neither answer may change while it is retained.
pub(crate) trait Retainable {
    /// Bytes that it counts for, beside its topic.
    fn bytes(&self) -> u64;
    /// When it expires, or [`Millis::NEVER`].
    fn expires_at(&self) -> Millis;
}

/// The retained message of each topic, in the order of the topics.
///
/// New topics are refused beyond the limits. A retained message may always be replaced, unless the new one is larger
/// and exceeds the limit of bytes; then the old message stays. Messages that return from a store or another node are
/// never refused.
#[derive(Debug)]
pub(crate) struct Retained<M> {
    tenants: BTreeMap<TenantId, BTreeMap<Box<str>, M>>,
    expiring: BTreeSet<(Millis, TenantId, Box<str>)>,
    /// Topics whose message has expired since they were asked for.
    expired: Vec<(TenantId, Box<str>)>,
    count: u64,
    bytes: u64,
    /// The same by tenant.
    bytes_of: BTreeMap<TenantId, u64>,
    max_count: u64,
    max_bytes: u64,
    /// How many messages a tenant may have, where that is limited.
    max_of_tenants: BTreeMap<TenantId, u64>,
    /// The ledger that counts them for all shards, if there is one.
    ledger: Option<Arc<dyn TenantLedger>>,
}

/// Expired messages that make room for a new one at a limit.
const RECLAIMED_MAX: u32 = 16;

/// Whether a step of a scan was the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanEnd {
    /// All topics were looked at.
    Done,
    /// The next step continues behind this topic.
    More(Box<str>),
}

impl Retainable for MessageRef {
    fn bytes(&self) -> u64 {
        self.cost()
    }

    fn expires_at(&self) -> Millis {
        self.expires_at
    }
}

impl<M: Retainable> Retained<M> {
    /// An empty table that holds at most `max_count` messages and `max_bytes` bytes of them; 0 is no limit.
    pub(crate) fn new(max_count: u64, max_bytes: u64) -> Self {
        let mut empty = Self {
            tenants: BTreeMap::new(),
            expiring: BTreeSet::new(),
            expired: Vec::new(),
            count: 0,
            bytes: 0,
            bytes_of: BTreeMap::new(),
            max_count: u64::MAX,
            max_bytes: u64::MAX,
            max_of_tenants: BTreeMap::new(),
            ledger: None,
        };
        empty.set_limits(max_count, max_bytes);
        empty
    }

    /// Sets the limits of messages and of their bytes; 0 is no limit. Messages that are beyond them already stay.
    pub(crate) fn set_limits(&mut self, max_count: u64, max_bytes: u64) {
        let limit = |max| if max == 0 { u64::MAX } else { max };
        (self.max_count, self.max_bytes) = (limit(max_count), limit(max_bytes));
    }

    /// Limits how many messages tenants may have.
    pub(crate) fn limit_tenants(&mut self, settings: &Settings) {
        let limits = settings.tenant_quotas.iter().map(|(tenant, quota)| (*tenant, u64::from(quota.max_retained)));
        self.max_of_tenants = limits.filter(|(_, max)| *max != 0).collect();
        self.ledger.clone_from(&settings.tenant_ledger);
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.expired.shrink_to_fit();
    }

    /// Number of messages, including expired ones that [`Retained::expire`] has not removed yet.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Bytes of all topics and messages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the topics and messages of each tenant that has had any.
    pub(crate) fn bytes_of_tenants(&self) -> impl Iterator<Item = (TenantId, u64)> {
        self.bytes_of.iter().map(|(tenant, bytes)| (*tenant, *bytes))
    }

    /// Retains a message, and returns the replaced one.
    ///
    /// # Errors
    ///
    /// [`Reason::RetainedCountLimit`], [`Reason::RetainedBytesLimit`] or [`Reason::TenantRetained`]; nothing has
    /// changed then.
    pub(crate) fn set(&mut self, tenant: TenantId, topic: &str, message: M, now: Millis) -> Result<Option<M>, Reason> {
        self.make_room(tenant, topic, &message, now)?;
        let is_new = self.tenants.get(&tenant).is_none_or(|topics| !topics.contains_key(topic));
        if is_new && !self.count_new(tenant) {
            let expired = self.expire(now, RECLAIMED_MAX);
            if expired == 0 || !self.count_new(tenant) {
                return Err(Reason::TenantRetained);
            }
        }
        Ok(self.insert(tenant, topic, message))
    }

    /// Retains a message that the quota of its tenant does not refuse, and returns the replaced one. It counts.
    ///
    /// # Errors
    ///
    /// [`Reason::RetainedCountLimit`] or [`Reason::RetainedBytesLimit`]; nothing has changed then.
    pub(crate) fn set_beyond_quota(
        &mut self,
        tenant: TenantId,
        topic: &str,
        message: M,
        now: Millis,
    ) -> Result<Option<M>, Reason> {
        self.make_room(tenant, topic, &message, now)?;
        Ok(self.take_back(tenant, topic, message))
    }

    /// Makes room for a message within the limits of all tenants together.
    fn make_room(&mut self, tenant: TenantId, topic: &str, message: &M, now: Millis) -> Result<(), Reason> {
        let size = size_of_entry(topic, message);
        if self.refusal(tenant, topic, size).is_some() {
            self.expire(now, RECLAIMED_MAX);
            if let Some(reason) = self.refusal(tenant, topic, size) {
                return Err(reason);
            }
        }
        Ok(())
    }

    /// Retains a message that was retained elsewhere or before, and returns the replaced one. No limit refuses
    /// it: its publisher has the acknowledgement, and a limit that is smaller now is no reason to lose the message.
    pub(crate) fn take_back(&mut self, tenant: TenantId, topic: &str, message: M) -> Option<M> {
        let is_new = self.tenants.get(&tenant).is_none_or(|topics| !topics.contains_key(topic));
        if is_new && let Some(ledger) = &self.ledger {
            ledger.add(tenant, Holding::Retained, 1);
        }
        self.insert(tenant, topic, message)
    }

    fn insert(&mut self, tenant: TenantId, topic: &str, message: M) -> Option<M> {
        let (size, deadline) = (size_of_entry(topic, &message), message.expires_at());
        let topics = self.tenants.entry(tenant).or_default();
        let old = match topics.get_mut(topic) {
            Some(kept) => Some(std::mem::replace(kept, message)),
            None => topics.insert(topic.into(), message),
        };
        let freed = old.as_ref().map_or(0, |old| size_of_entry(topic, old));
        self.count += u64::from(old.is_none());
        self.count_bytes(tenant, size, freed);
        let old_deadline = old.as_ref().map_or(Millis::NEVER, M::expires_at);
        if old_deadline != deadline {
            self.move_deadline(tenant, topic, old_deadline, deadline);
        }
        old
    }

    /// Removes the message of a topic.
    pub(crate) fn clear(&mut self, tenant: TenantId, topic: &str) -> Option<M> {
        let topics = self.tenants.get_mut(&tenant)?;
        let (topic, message) = topics.remove_entry(topic)?;
        if topics.is_empty() {
            self.tenants.remove(&tenant);
        }
        self.count -= 1;
        if let Some(ledger) = &self.ledger {
            ledger.release(tenant, Holding::Retained, 1);
        }
        self.count_bytes(tenant, 0, size_of_entry(&topic, &message));
        self.move_deadline(tenant, &topic, message.expires_at(), Millis::NEVER);
        Some(message)
    }

    /// The message of a topic, unless it has expired.
    pub(crate) fn get(&self, tenant: TenantId, topic: &str, now: Millis) -> Option<&M> {
        let message = self.tenants.get(&tenant)?.get(topic)?;
        (message.expires_at() > now).then_some(message)
    }

    /// All messages, expired ones included, by tenant and topic.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TenantId, &str, &M)> {
        self.tenants
            .iter()
            .flat_map(|(tenant, topics)| topics.iter().map(|(topic, message)| (*tenant, &**topic, message)))
    }

    /// One step of delivering the matches of a valid filter (without `$share/GROUP/`): looks at up to `budget` topics
    /// behind `after` and calls `visit` with each match that has not expired, in their order.
    ///
    /// The table may change between the steps. A topic that exists all the time is visited exactly once, and none
    /// twice.
    /// Topics that cannot match are skipped in bulk: `site/+/temp` looks at some three topics of each site.
    pub(crate) fn scan(
        &self,
        tenant: TenantId,
        filter: &str,
        after: Option<&str>,
        budget: u32,
        now: Millis,
        visit: &mut dyn FnMut(&str, &M),
    ) -> ScanEnd {
        let Some(topics) = self.tenants.get(&tenant) else {
            return ScanEnd::Done;
        };
        let Some(wildcard) = filter.find(['+', '#']) else {
            if let Some(message) = self.get(tenant, filter, now).filter(|_| after.is_none()) {
                visit(filter, message);
            }
            return ScanEnd::Done;
        };
        // `a/#` matches `a` as well, which comes before `a/`.
        let prefix = filter[..wildcard].strip_suffix('/').unwrap_or_default();
        let mut rest =
            topics.range::<str, _>((after.map_or(Bound::Included(prefix), Bound::Excluded), Bound::Unbounded));
        let mut seek = String::new();
        let mut looked_at = 0;
        while let Some((topic, message)) = rest.next() {
            match judge(filter, topic, &mut seek) {
                Judgement::Matches if message.expires_at() > now => visit(topic, message),
                Judgement::Matches | Judgement::Next => {}
                Judgement::Seek => rest = topics.range::<str, _>((Bound::Included(seek.as_str()), Bound::Unbounded)),
                Judgement::Done => break,
            }
            looked_at += 1;
            if looked_at >= budget {
                return ScanEnd::More(topic.clone());
            }
        }
        ScanEnd::Done
    }

    /// When the next message expires, or [`Millis::NEVER`].
    pub(crate) fn next_expiry(&self) -> Millis {
        self.expiring.first().map_or(Millis::NEVER, |first| first.0)
    }

    /// Removes up to `budget` messages that have expired by `now` and returns how many; as many as `budget` means that
    /// there may be more.
    pub(crate) fn expire(&mut self, now: Millis, budget: u32) -> u32 {
        let mut removed = 0;
        while removed < budget && self.next_expiry() <= now {
            let Some((_, tenant, topic)) = self.expiring.pop_first() else {
                break;
            };
            self.clear(tenant, &topic);
            self.expired.push((tenant, topic));
            removed += 1;
        }
        removed
    }

    /// Topics whose message has expired since this was asked last.
    pub(crate) fn take_expired(&mut self) -> Vec<(TenantId, Box<str>)> {
        std::mem::take(&mut self.expired)
    }

    /// Compares the sums with their entries.
    pub(crate) fn audit(&self, wrong: &mut dyn FnMut(String)) {
        let count = self.iter().count() as u64;
        let bytes: u64 = self.iter().map(|(_, topic, message)| size_of_entry(topic, message)).sum();
        let by_tenant: u64 = self.bytes_of.values().sum();
        if by_tenant != bytes {
            wrong(format!("retained: {by_tenant} bytes are kept by tenant, {bytes} are true"));
        }
        let expiring = self.iter().filter(|(_, _, message)| message.expires_at() != Millis::NEVER).count();
        if (self.count, self.bytes, self.expiring.len()) != (count, bytes, expiring) {
            wrong(format!("retained: {} of {} bytes are kept, {count} of {bytes} are true", self.count, self.bytes));
        }
    }

    fn count_bytes(&mut self, tenant: TenantId, added: u64, freed: u64) {
        self.bytes = self.bytes + added - freed;
        let of_tenant = self.bytes_of.entry(tenant).or_default();
        *of_tenant = *of_tenant + added - freed;
    }

    fn move_deadline(&mut self, tenant: TenantId, topic: &str, from: Millis, to: Millis) {
        if from != Millis::NEVER {
            self.expiring.remove(&(from, tenant, topic.into()));
        }
        if to != Millis::NEVER {
            self.expiring.insert((to, tenant, topic.into()));
        }
    }

    /// Counts a message of a new topic for its tenant, if that may have one more; returns true if it has.
    fn count_new(&self, tenant: TenantId) -> bool {
        if let Some(ledger) = &self.ledger {
            return ledger.claim(tenant, Holding::Retained);
        }
        let has = self.tenants.get(&tenant).map_or(0, BTreeMap::len) as u64;
        self.max_of_tenants.get(&tenant).is_none_or(|max| has < *max)
    }

    /// Why an entry of `size` bytes cannot be taken.
    fn refusal(&self, tenant: TenantId, topic: &str, size: u64) -> Option<Reason> {
        let topics = self.tenants.get(&tenant);
        let old = topics.and_then(|topics| topics.get(topic));
        let freed = old.map_or(0, |old| size_of_entry(topic, old));
        if old.is_none() && self.count >= self.max_count {
            return Some(Reason::RetainedCountLimit);
        }
        if size > freed && self.bytes - freed + size > self.max_bytes {
            return Some(Reason::RetainedBytesLimit);
        }
        None
    }
}

impl<M> Drop for Retained<M> {
    /// A ledger may outlive the engine, as where users come and go that have one each.
    fn drop(&mut self) {
        let Some(ledger) = &self.ledger else { return };
        for (tenant, topics) in &self.tenants {
            ledger.release(*tenant, Holding::Retained, topics.len() as u64);
        }
    }
}

fn size_of_entry<M: Retainable>(topic: &str, message: &M) -> u64 {
    topic.len() as u64 + message.bytes()
}

#[cfg(test)]
mod tests;
