//! Names of places and things: distinct types, so that a session cannot be taken for a connection.

use crate::hash::hash_bytes;
pub use crate::partitions::{EARLIER_PARTITIONS, PARTITIONS, PartitionId, Partitions};
use std::fmt;

/// The prefix of the client ids of broker links; such a name is at home in partition 0.
pub(crate) const BROKER_LINK_PREFIX: &str = "$uplink/";

/// The start of client ids of the hub's sessions. Only clients of the hub's listener may have such an id.
pub const HUB_CLIENT_PREFIX: &str = "tidegate-hub-";

/// A shard of this process: one thread, one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// The position of an engine among its peers: its number and the number of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardPosition {
    /// This engine's shard.
    pub shard: ShardId,
    /// Number of shards in the process, 1..=[`MAX_SHARDS`].
    pub shards: u16,
}

/// More shards than this are refused at start; interest in a topic is kept as a set of this many bits.
pub const MAX_SHARDS: u16 = 64;

impl ShardPosition {
    /// A process of a single shard.
    pub const ALONE: Self = Self { shard: ShardId(0), shards: 1 };

    /// The shard of `partition`. The mapping is the same as in earlier versions, so that what stores say of
    /// shards stays true.
    #[inline]
    pub fn home_of(self, partition: PartitionId) -> ShardId {
        ShardId(partition.0 % EARLIER_PARTITIONS % self.shards)
    }

    /// Whether this shard works `partition`.
    #[inline]
    pub fn owns(self, partition: PartitionId) -> bool {
        self.home_of(partition) == self.shard
    }

    /// All other shards of the process.
    pub fn others(self) -> impl Iterator<Item = ShardId> {
        (0..self.shards).map(ShardId).filter(move |other| *other != self.shard)
    }
}

/// A tenant: every client id, topic, group and quota belongs to one. A broker without tenants has only
/// [`TenantId::DEFAULT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u16);

impl TenantId {
    /// The tenant of listeners that name none.
    pub const DEFAULT: Self = Self(0);

    /// The tenant of messages that clients publish to an orchestrator, until a broker returns them. No client has it.
    pub const BROKER_LINK: Self = Self(u16::MAX);

    /// The tenant of its subscribers and retained messages.
    #[must_use]
    pub(crate) fn of_clients(self) -> Self {
        if self == Self::BROKER_LINK { Self::DEFAULT } else { self }
    }
}

/// The tenant whose quota counts a client, its session and its subscriptions. Pipelines are the operator's, in whatever tenant they are: no tenant
/// is counted for them.
pub(crate) fn counted_for(tenant: TenantId, client_id: &str) -> TenantId {
    if client_id.starts_with(HUB_CLIENT_PREFIX) { TenantId::BROKER_LINK } else { tenant }
}

/// The partition of a client id, a retained topic, or a shared group's name and filter.
pub fn partition_of(tenant: TenantId, name: &str) -> PartitionId {
    // `$SYS` has one writer; keeping its values together lets that writer be their home.
    // All broker links have one owner, the home of partition 0.
    if name.starts_with("$SYS/") || (tenant == TenantId::BROKER_LINK && name.starts_with(BROKER_LINK_PREFIX)) {
        return PartitionId(0);
    }
    partition_of_hash(hash_name(tenant.of_clients(), name))
}

/// The partition of the group that all broker links of a process are in. No table has it, so the process is its home.
pub(crate) const BROKER_LINK_PARTITION: PartitionId = PartitionId(PARTITIONS);

/// The partition whose home deals for a shared group.
pub(crate) fn group_partition(tenant: TenantId, share: &str, filter: &str) -> PartitionId {
    if tenant == TenantId::BROKER_LINK {
        return BROKER_LINK_PARTITION;
    }
    partition_of(tenant, &format!("{share}/{filter}"))
}

/// The partition of a name with a known hash.
pub(crate) fn partition_of_hash(hash: u64) -> PartitionId {
    PartitionId((hash >> 32) as u16 % PARTITIONS)
}

/// A connection of this shard. The generation keeps an event for a closed connection from reaching its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey {
    /// Slot in the shard's table, reused.
    pub index: u32,
    /// The number of uses of the slot.
    pub generation: u32,
}

/// A session of this shard, by its slot. Every use is checked against the client id or dies with the session's
/// subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionKey(pub u32);

/// A listener, as numbered in [`Settings::listeners`](crate::Settings::listeners).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u16);

/// The listener of principals. No socket comes through it; rules are asked about it.
pub(crate) const PRINCIPAL_LISTENER: ListenerId = ListenerId(u16::MAX - 2);

/// Names a principal at its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalId(pub(crate) ConnectionKey);

/// Names an observer at its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObserverId(pub(crate) u8);

impl ObserverId {
    /// The observer that puts messages for applications on a bus, if
    /// [`AddressSettings::records`](crate::AddressSettings::records) says that there is one.
    pub const APPLICATIONS: Self = Self(0);
    /// The receiver of mobile nodes' reports, on the topics of
    /// [`AddressSettings::reports`](crate::AddressSettings::reports).
    pub const REPORTS: Self = Self(1);
    /// The first one that has filters of its own.
    pub(crate) const FIRST: u8 = 2;
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

/// Hashes a name within its tenant.
#[inline]
pub(crate) fn hash_name(tenant: TenantId, name: &str) -> u64 {
    hash_bytes(u64::from(tenant.0), name.as_bytes())
}

/// Numbers for assigned client ids, unguessable enough not to collide with clients' own names.
#[derive(Debug)]
pub(crate) struct AssignedNames {
    pub seed: u64,
    pub next: u64,
}

/// Stands where the sessions of clients have the listener that they came through.
pub(crate) const BROKER_LINK_LISTENER: ListenerId = ListenerId(u16::MAX - 1);

/// A broker link of this shard; numbers of removed ones are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BrokerLinkKey(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_of_names_stay() {
        // Tables on the bus and stores name partitions, and so does the rig of `crates/torture`.
        let names = ["a", "probe-17", "subscriber", "a-name-with-more-than-16-bytes"];
        assert_eq!(names.map(|name| partition_of(TenantId::DEFAULT, name).0), [896, 152, 199, 546]);
    }
}
