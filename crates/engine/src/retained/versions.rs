//! Retained values of topics whose home is another node.
//!
//! As long as a home cannot be reached, this node takes its place for its own clients, and keeps the values that they
//! retain. When the home or its successor is reached, it receives the values kept here and the removals, each with its
//! version. The home keeps the newest; when it has confirmed, the copy here is forgotten.

use super::removed::{Removed, RemovedImage, time_of};
use super::strays::{Name, UNDER_WAY_MAX};
use crate::events::reason::Reason;
use crate::ids::{Partitions, ShardId, ShardPosition, TenantId, partition_of};
use crate::journal::keys::Key;
use crate::link::Links;
use crate::link::envelope::{Passage, RETAIN_AT_HOME, Ticket, VERSIONED};
use crate::message::{MessageRef, Publication};
use crate::now::{Millis, Now};
use crate::partitions::ByPartition;
use crate::publish::dispatch::Source;
use crate::retained::RetainedStore;
use crate::roster::Roster;
use crate::roster::Shards;
use crate::state::ShardState;
use crate::topics::is_own_topic;
use crate::wire::WireWrite;
use tidegate_mqtt::QoS;

/// By how much the clock of a member may be behind before it counts as behind, milliseconds. Below that, the ids of two
/// values decide which one entered later.
const CLOCK_ERROR_MS: u64 = 10;
/// How wrong the age of a value of another member may be, milliseconds.
const TRANSIT_ERROR_MS: u64 = 1000;

impl RetainedStore {
    /// The version of the value or removal of a topic here.
    fn version_here(&self, now: Now, tenant: TenantId, topic: &str) -> Option<u64> {
        let value = self.values.get(tenant, topic, now.monotonic);
        value.map(|value| Removed::version_of(value.publisher, now.unix)).or_else(|| self.removed.get(tenant, topic))
    }

    /// The version of a value that a client has given `age_ms` ago: its own, where that is above the version here.
    /// Otherwise the clock that made `own` may be behind that of the version here, as of a member that has started since
    /// or has seen no value of that clock. Then the value follows the one here, unless that one entered later. `present`
    /// is the time of the clock here, Unix milliseconds.
    pub(crate) fn version_entering(
        &self,
        now: Now,
        (tenant, topic): (TenantId, &str),
        own: u64,
        present: u64,
        age_ms: u64,
    ) -> u64 {
        let Some(here) = self.version_here(now, tenant, topic).filter(|here| *here >= own) else { return own };
        let entered = present.saturating_sub(age_ms);
        let is_clock_behind = time_of(own) + CLOCK_ERROR_MS < entered;
        // A clock beyond all limits has made that version.
        let is_ahead = time_of(here) >= present;
        let is_late = time_of(here) > entered + TRANSIT_ERROR_MS;
        if is_ahead || is_clock_behind && !is_late { here + 1 } else { own }
    }

    /// Whether this shard has a value or removal of a topic that is as new.
    pub(crate) fn has_as_new(&self, now: Now, tenant: TenantId, topic: &str, stored: u64) -> bool {
        let version = Removed::version_of(stored, now.unix);
        self.version_here(now, tenant, topic).is_some_and(|here| here >= version)
    }

    /// Keeps a value of a client, or removes it, as the newest of its topic.
    pub(crate) fn keep_newest(
        &mut self,
        now: Now,
        roster: &Roster,
        state: &mut ShardState,
        publication: &mut Publication<'_>,
    ) -> Option<Reason> {
        let version = self.removed.next_version(now.unix);
        let partition = partition_of(publication.tenant, publication.topic);
        if roster.lacks_home(partition) {
            self.strays.note(partition);
        }
        self.keep_version(now, state, publication, version)
    }

    /// Keeps a value, or removes it, under a version.
    fn keep_version(
        &mut self,
        now: Now,
        state: &mut ShardState,
        publication: &Publication<'_>,
        version: u64,
    ) -> Option<Reason> {
        let Publication { tenant, topic, qos, .. } = *publication;
        let (properties, expires_at, payload) = (publication.properties, publication.expires_at, publication.payload);
        let mut own = Publication::new(tenant, topic, qos, true, properties, expires_at, payload, version);
        own.priority = publication.priority;
        own.beyond_quota = publication.beyond_quota;
        own.shared.clone_from(&publication.shared);
        if !payload.is_empty() {
            let refused = self.keep_value(now, state, &mut own);
            if refused.is_none() {
                self.removed.forget(tenant, topic);
            }
            return refused;
        }
        self.values.clear(tenant, topic);
        let forgotten = self.removed.note(tenant, topic, version, now.unix);
        if state.journal.is_on() && topic.len() <= crate::journal::keys::STORED_NAME_MAX {
            state.journal.put_retained(&own);
            for (tenant, topic) in forgotten {
                state.journal.delete(Key::Retained(tenant, &topic));
            }
        }
        None
    }

    /// A node sends a value that it has kept in place of this one. The newest wins.
    pub(crate) fn take_stray(
        &mut self,
        now: Now,
        place: ShardPosition,
        roster: &Roster,
        state: &mut ShardState,
        publication: &Publication<'_>,
    ) -> Option<Reason> {
        let version = publication.publisher;
        self.removed.note_seen(version);
        if self.has_as_new(now, publication.tenant, publication.topic, version) {
            return None;
        }
        let partition = partition_of(publication.tenant, publication.topic);
        if roster.home_of(partition) != place.shard || roster.lacks_home(partition) {
            // The sender knows more than this node, which passes the value on when it knows that, too.
            self.strays.note(partition);
        }
        if !state.transfers.are_none() {
            state.transfers.note_retained(now, publication);
        }
        self.keep_version(now, state, publication, version)
    }

    /// Takes in the retained message of a topic, or that it was removed.
    pub(crate) fn restore_retained(&mut self, now: Now, state: &mut ShardState, tenant: TenantId, message: MessageRef) {
        let (topic, version) = (message.topic().to_owned(), message.publisher);
        if message.payload().is_empty() {
            return self.restore_removed(now, state, tenant, &topic, version);
        }
        self.removed.note_seen(Removed::version_of(version, now.unix));
        self.strays.note(partition_of(tenant, &topic));
        self.values.take_back(tenant, &topic, message);
    }

    fn restore_removed(&mut self, now: Now, state: &mut ShardState, tenant: TenantId, topic: &str, version: u64) {
        for (tenant, topic) in self.removed.note(tenant, topic, version, now.unix) {
            state.journal.delete(Key::Retained(tenant, &topic));
        }
        self.strays.note(partition_of(tenant, topic));
    }

    /// Forgets the removals of a partition that is at home elsewhere.
    pub(crate) fn forget_removed(&mut self, state: &mut ShardState, partitions: Partitions) {
        let its = self.removed_by_partition(partitions);
        let its: Vec<Name> = its.all().map(|(tenant, topic, _)| (*tenant, Box::from(*topic))).collect();
        for (tenant, topic) in its {
            self.removed.forget(tenant, &topic);
            if state.journal.is_on() {
                state.journal.delete(Key::Retained(tenant, &topic));
            }
        }
    }

    /// The removals of partitions.
    pub(crate) fn removed_by_partition(&self, partitions: Partitions) -> ByPartition<(TenantId, &str, u64)> {
        let placed = |(tenant, topic, version)| (partition_of(tenant, topic), (tenant, topic, version));
        ByPartition::new(partitions, self.removed.iter().map(placed))
    }

    /// Writes the removals of a partition into its image.
    pub(crate) fn put_removed(out: &mut Vec<u8>, all: &[(TenantId, &str, u64)]) {
        out.put_u32(all.len() as u32);
        for (tenant, topic, version) in all {
            out.put_u16(tenant.0);
            out.put_bytes(topic.as_bytes());
            out.put_u64(*version);
        }
    }

    /// Adds the removals of a partition that are newer than the state here.
    pub(crate) fn adopt_removed(&mut self, now: Now, state: &mut ShardState, all: RemovedImage) {
        for (tenant, topic, version) in all {
            if !self.has_as_new(now, tenant, &topic, version) {
                let removal = Publication::new(tenant, &topic, QoS::AtMostOnce, true, &[], Millis::NEVER, &[], version);
                self.keep_version(now, state, &removal, version);
            }
        }
    }

    /// A roster is in force: values kept here in place of nodes that are now reached are sent to them.
    pub(crate) fn bring_strays_home(&mut self, now: Now, state: &mut ShardState, links: &mut Links) {
        if self.strays.are_none() {
            return;
        }
        let is_known = |partition| !links.roster.lacks_home(partition);
        let known = self.strays.partitions.filtered(is_known);
        self.strays.partitions = self.strays.partitions.without(known);
        let away = known.filtered(|partition| !links.roster.is_own(links.roster.home_of(partition)));
        if away.is_empty() {
            return;
        }
        let values = self.values.iter().map(|(tenant, topic, _)| (tenant, topic));
        let removals = self.removed.iter().map(|(tenant, topic, _)| (tenant, topic));
        let strays = values
            .chain(removals)
            .filter(|(tenant, topic)| away.has(partition_of(*tenant, topic)) && !is_own_topic(topic));
        let strays: Vec<Name> = strays.map(|(tenant, topic)| (tenant, Box::from(topic))).collect();
        self.strays.next.extend(strays);
        self.send_strays(now, state, links);
    }

    /// Sends values until [`UNDER_WAY_MAX`] are in transit.
    fn send_strays(&mut self, now: Now, state: &mut ShardState, links: &mut Links) {
        while self.strays.under_way.len() < UNDER_WAY_MAX
            && let Some((tenant, topic)) = self.strays.next.pop_front()
        {
            let partition = partition_of(tenant, &topic);
            let home = links.roster.home_of(partition);
            if links.roster.lacks_home(partition) {
                self.strays.note(partition);
                continue;
            }
            if links.roster.is_own(home) || state.transfers.keeps_values_of(partition) {
                continue;
            }
            self.send_stray(now, state, links, (tenant, &topic), home);
        }
    }

    fn send_stray(
        &mut self,
        now: Now,
        state: &mut ShardState,
        links: &mut Links,
        (tenant, topic): (TenantId, &str),
        home: ShardId,
    ) {
        let Some(version) = self.version_here(now, tenant, topic) else { return };
        let value = self.values.get(tenant, topic, now.monotonic).cloned();
        let removal = Publication::new(tenant, topic, QoS::AtMostOnce, true, &[], Millis::NEVER, &[], version);
        let mut publication = value.as_ref().map_or(removal, |value| value.publication());
        publication.publisher = version;
        let ticket = self.strays.new_ticket((tenant, topic.into()), version, home);
        let Source { origin, entered_at, hops, .. } = Source::inside(links.place.shard, now);
        let passage = Passage {
            purpose: RETAIN_AT_HOME | VERSIONED,
            origin,
            entered_at,
            priority: publication.priority,
            hops,
            from: Some(ticket.connection),
            ticket: Some(ticket),
        };
        links.send_publish(home, &passage, &mut publication, false);
        state.counters.shard_messages_out += 1;
    }

    /// A home has confirmed a value that was kept here in its place.
    #[cold]
    pub(crate) fn confirm_stray(&mut self, state: &mut ShardState, links: &mut Links, ticket: Ticket) {
        let number = u64::from(ticket.connection.generation) << 32 | u64::from(ticket.sequence);
        let Some(((tenant, topic), version, home)) = self.strays.under_way.remove(&number) else { return };
        let now = state.journal.now;
        let is_same = self.version_here(now, tenant, &topic) == Some(version);
        if is_same && links.roster.home_of(partition_of(tenant, &topic)) == home {
            let had = self.values.clear(tenant, &topic).is_some() | self.removed.forget(tenant, &topic);
            if had && state.journal.is_on() {
                state.journal.delete(Key::Retained(tenant, &topic));
            }
        }
        self.send_strays(now, state, links);
    }

    /// A shard that had to confirm values is gone: they are sent to its successor.
    pub(crate) fn keep_strays_of(&mut self, gone: ShardId) {
        let gone = Shards::of(gone);
        let partitions = &mut self.strays.partitions;
        self.strays.under_way.retain(|_, ((tenant, topic), _, home)| {
            let is_lost = gone.has(*home);
            if is_lost {
                partitions.add(partition_of(*tenant, topic));
            }
            !is_lost
        });
    }
}
