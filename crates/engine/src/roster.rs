//! The shards that an engine exchanges records with: the others of its process, and the shards of the other nodes of
//! its cluster.
//!
//! A shard of another node has a number above the numbers of the process's own shards. The shell of each process gives
//! these numbers, and never the same one to two lives of a node at once: so a number identifies one life of one shard.

use crate::ids::{MAX_SHARDS, PARTITIONS, PartitionId, Partitions, ShardId, ShardPosition, TenantId, partition_of};
use crate::topics::is_own_topic;
use std::sync::Arc;

/// The shards of a cluster and the partitions of each, as one process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    place: ShardPosition,
    /// The living shards, one bit each, with this one.
    live: u64,
    /// Partitions without a home for now. Their next home delivers the messages that are owed there.
    absent: Partitions,
    /// True if `absent` has a partition.
    misses_any: bool,
    /// Partitions whose homes cannot be reached, and which this process works for its own clients meanwhile.
    substituted: Partitions,
    homes: [ShardId; PARTITIONS as usize],
    /// The greatest id of a move that can have begun by now; `u64::MAX` outside a cluster.
    moves_begun: u64,
    /// Moves that have begun and are not decided.
    open_moves: Vec<u64>,
    /// Whether there are nodes in the table to which this process has no link.
    lacks_nodes: bool,
    crossing: Crossing,
    /// By how much the clock of another node is ahead of this one's, milliseconds.
    pub(crate) clock_lead_ms: u64,
}

/// The greatest lead of another node's clock that versions of values follow, milliseconds. A value whose version is further
/// ahead counts as old.
pub(crate) const CLOCK_LEAD_MAX_MS: u64 = 12 * 60 * 60 * 1000;

/// The topics whose messages cross to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Crossing {
    All,
    /// At or below this prefix.
    Below(Arc<str>),
    None,
}

const _: () = assert!(MAX_SHARDS as u32 == u64::BITS, "a set of shards is a number");

impl Roster {
    /// That of a process that is no node of a cluster.
    pub fn alone(place: ShardPosition) -> Self {
        let own = u64::MAX >> (u64::BITS - u32::from(place.shards.clamp(1, MAX_SHARDS)));
        let homes = std::array::from_fn(|at| place.home_of(PartitionId(at as u16)));
        Self {
            place,
            live: own,
            absent: Partitions::NONE,
            misses_any: false,
            substituted: Partitions::NONE,
            homes,
            moves_begun: u64::MAX,
            open_moves: Vec::new(),
            lacks_nodes: false,
            crossing: Crossing::All,
            clock_lead_ms: 0,
        }
    }

    /// Adds a shard of another node; a number of this process's own shards, or beyond [`MAX_SHARDS`], changes nothing.
    #[must_use]
    pub fn with_peer(mut self, shard: ShardId) -> Self {
        if shard.0 < MAX_SHARDS {
            self.live |= 1 << shard.0;
        }
        self
    }

    /// Says that a shard works a partition, also one of another node. A shard that is not in the roster changes
    /// nothing.
    #[must_use]
    pub fn with_home(mut self, partition: PartitionId, shard: ShardId) -> Self {
        if self.has(shard)
            && let Some(home) = self.homes.get_mut(usize::from(partition.0))
        {
            *home = shard;
        }
        self
    }

    /// Marks a partition that no node serves for now: its node is gone, and that node or another one will take over its
    /// sessions and messages.
    #[must_use]
    pub fn with_absent(mut self, partition: PartitionId) -> Self {
        self.absent.add(partition);
        self.misses_any = true;
        self
    }

    /// Says that a partition's home cannot be reached, so that this process takes its place for its own clients.
    #[must_use]
    pub fn with_stand_in(mut self, partition: PartitionId) -> Self {
        self.substituted.add(partition);
        self
    }

    /// Sets the moves that have begun: all with ids up to `begun`; moves outside `open` are decided. Without this
    /// call no move is under way.
    #[must_use]
    pub fn with_moves(mut self, begun: u64, open: &[u64]) -> Self {
        (self.moves_begun, self.open_moves) = (begun, open.to_vec());
        self
    }

    /// Says that there are nodes in the table to which this process has no link.
    #[must_use]
    pub fn with_nodes_lacking(mut self) -> Self {
        self.lacks_nodes = true;
        self
    }

    /// Says that only topics at or below this prefix cross to other nodes, as between orchestrators. Brokers carry the
    /// messages on all other topics. Messages that a shared group has dealt cross on all topics.
    #[must_use]
    pub fn with_topics_below(mut self, prefix: &str) -> Self {
        self.crossing = Crossing::Below(Arc::from(prefix));
        self
    }

    /// Says that only retained values, and messages that shared groups have dealt, cross to other nodes, as between
    /// orchestrators without addresses.
    #[must_use]
    pub fn with_values_only(mut self) -> Self {
        self.crossing = Crossing::None;
        self
    }

    /// Sets by how much the wall clock of another node is ahead of this one's, in milliseconds; beyond 12 hours as 12
    /// hours. Versions of retained values are made by the clock that is ahead.
    #[must_use]
    pub fn with_clock_lead(mut self, milliseconds: u64) -> Self {
        self.clock_lead_ms = milliseconds.min(CLOCK_LEAD_MAX_MS);
        self
    }

    /// Whether a topic crosses to other nodes.
    #[inline]
    pub(crate) fn crosses(&self, topic: &str) -> bool {
        !is_own_topic(topic)
            && match &self.crossing {
                Crossing::All => true,
                Crossing::Below(prefix) => is_at_or_below(prefix, topic),
                Crossing::None => false,
            }
    }

    /// Whether topics of a filter can cross to other nodes.
    pub(crate) fn may_cross(&self, filter: &str) -> bool {
        !is_own_topic(filter)
            && match &self.crossing {
                Crossing::All => true,
                Crossing::Below(prefix) => can_match_below(prefix, filter),
                Crossing::None => false,
            }
    }

    /// Whether its processes are orchestrators: brokers carry messages on ordinary topics from one to another.
    pub(crate) fn is_of_orchestrators(&self) -> bool {
        self.crossing != Crossing::All
    }

    /// Whether there are nodes in the table to which this process has no link.
    pub(crate) fn lacks_nodes(&self) -> bool {
        self.lacks_nodes
    }

    /// Whether the end of a move is known.
    pub(crate) fn has_decided(&self, id: u64) -> bool {
        id <= self.moves_begun && !self.open_moves.contains(&id)
    }

    /// Whether this process serves a partition only while its home cannot be reached.
    pub(crate) fn is_substitute_for(&self, partition: PartitionId) -> bool {
        self.substituted.has(partition)
    }

    /// Whether a partition is at home in this process, and not only for now.
    pub(crate) fn is_of_process(&self, partition: PartitionId) -> bool {
        self.is_own(self.home_of(partition)) && !self.is_substitute_for(partition)
    }

    /// Whether a partition is at home on this shard, and not only for now.
    pub(crate) fn works(&self, partition: PartitionId) -> bool {
        self.home_of(partition) == self.place.shard && !self.lacks_home(partition)
    }

    /// Whether the home of a partition is away: this process takes its place for now, or no node does.
    pub(crate) fn lacks_home(&self, partition: PartitionId) -> bool {
        self.is_substitute_for(partition) || self.misses(partition)
    }

    /// Whether members of groups may be at processes that are away: at one without a link to an orchestrator, or at a dead
    /// one without a successor.
    pub(crate) fn awaits_members(&self) -> bool {
        self.misses_any() || self.is_of_orchestrators() && self.lacks_nodes()
    }

    /// True if some partition has no serving node for now.
    #[inline]
    pub(crate) fn misses_any(&self) -> bool {
        self.misses_any
    }

    /// Partitions that have no serving node for now.
    pub(crate) fn missed_partitions(&self) -> Partitions {
        self.absent
    }

    /// True if no node serves this partition for now.
    pub(crate) fn misses(&self, partition: PartitionId) -> bool {
        self.absent.has(partition)
    }

    /// Whether a shard is in it.
    #[inline]
    pub fn has(&self, shard: ShardId) -> bool {
        shard.0 < MAX_SHARDS && self.live >> shard.0 & 1 != 0
    }

    /// Whether a shard is one of this process.
    #[inline]
    pub(crate) fn is_own(&self, shard: ShardId) -> bool {
        shard.0 < self.place.shards
    }

    /// The shard that works a partition.
    #[inline]
    pub(crate) fn home_of(&self, partition: PartitionId) -> ShardId {
        self.homes.get(usize::from(partition.0)).copied().unwrap_or(self.place.shard)
    }

    /// The partitions that a shard works.
    pub(crate) fn at_home(&self, shard: ShardId) -> Partitions {
        Partitions::that(|partition| self.home_of(partition) == shard)
    }

    /// The home of a topic's retained message: one for all nodes, also where messages on the topic do not cross. A
    /// message of `$SYS` is in this process.
    #[inline]
    pub(crate) fn home_of_topic(&self, tenant: TenantId, topic: &str) -> ShardId {
        let partition = partition_of(tenant, topic);
        if is_own_topic(topic) { self.place.home_of(partition) } else { self.home_of(partition) }
    }

    /// Whether this process is a node of a cluster, also while no other node is there.
    pub(crate) fn is_of_cluster(&self) -> bool {
        self.moves_begun != u64::MAX
    }

    /// Whether there is no shard of another node.
    #[inline]
    pub(crate) fn has_no_peers(&self) -> bool {
        self.peers().0 == 0
    }

    /// How many shards there are.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.live.count_ones()
    }

    /// All shards, this one included.
    pub(crate) fn all(&self) -> Shards {
        Shards(self.live)
    }

    /// All other shards.
    #[inline]
    pub(crate) fn others(&self) -> Shards {
        Shards(self.live & !(1 << self.place.shard.0))
    }

    /// The other shards that learn the interest in a filter. Shards of other nodes learn it only if topics of the filter
    /// can cross; messages on their way to brokers never cross.
    #[inline]
    pub(crate) fn others_for(&self, tenant: TenantId, filter: &str) -> Shards {
        let others = self.others();
        if tenant != TenantId::BROKER_LINK && self.may_cross(filter) { others } else { others.without(self.peers()) }
    }

    /// All shards of a filter with wildcards: where its retained messages can be.
    pub(crate) fn homes_for(&self, filter: &str) -> Shards {
        if is_own_topic(filter) { self.of_process() } else { self.all() }
    }

    /// The shards of this process.
    pub(crate) fn of_process(&self) -> Shards {
        Shards(self.live).without(self.peers())
    }

    /// The live shards among some, one bit each.
    #[inline]
    pub(crate) fn living(&self, shards: u64) -> u64 {
        shards & self.live
    }

    /// The shards of other nodes.
    #[inline]
    pub(crate) fn peers(&self) -> Shards {
        Shards(self.live & !(u64::MAX >> (u64::BITS - u32::from(self.place.shards))))
    }
}

/// Whether a topic is the prefix, or below it.
#[inline]
fn is_at_or_below(prefix: &str, topic: &str) -> bool {
    topic.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a filter matches the prefix or a topic below it.
fn can_match_below(prefix: &str, filter: &str) -> bool {
    let mut levels = filter.split('/');
    for own in prefix.split('/') {
        match levels.next() {
            Some("#") => return true,
            Some(level) if level == "+" || level == own => {}
            _ => return false,
        }
    }
    true
}

/// Some shards, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shards(pub(crate) u64);

impl Shards {
    /// One alone.
    pub(crate) fn of(shard: ShardId) -> Self {
        Self(1 << (shard.0 & 63))
    }

    pub(crate) fn add(&mut self, shard: ShardId) {
        self.0 |= Self::of(shard).0;
    }

    /// The shards that are in either set.
    pub(crate) fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The shards that are in the first set only.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    #[inline]
    pub(crate) fn has(self, shard: ShardId) -> bool {
        self.0 >> (shard.0 & 63) & 1 != 0
    }
}

impl IntoIterator for Shards {
    type Item = ShardId;
    type IntoIter = ShardsInOrder;

    #[inline]
    fn into_iter(self) -> ShardsInOrder {
        ShardsInOrder(self.0)
    }
}

/// Each of some shards.
#[derive(Debug)]
pub(crate) struct ShardsInOrder(u64);

impl Iterator for ShardsInOrder {
    type Item = ShardId;

    #[inline]
    fn next(&mut self) -> Option<ShardId> {
        if self.0 == 0 {
            return None;
        }
        let shard = ShardId(self.0.trailing_zeros() as u16);
        self.0 &= self.0 - 1;
        Some(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_topics_below_a_prefix_cross_where_there_is_one() {
        let place = ShardPosition { shard: ShardId(0), shards: 1 };
        let all = Roster::alone(place).with_peer(ShardId(1));
        let some = all.clone().with_topics_below("a/ctx");
        for crossing in ["a/ctx", "a/ctx/x"] {
            assert!(all.crosses(crossing) && some.crosses(crossing), "{crossing}");
        }
        for other in ["a", "a/ctxt", "x/a/ctx"] {
            assert!(all.crosses(other) && !some.crosses(other), "{other}");
        }
        for filter in ["#", "+/#", "a/#", "a/+/x", "+/ctx", "a/ctx", "a/ctx/#"] {
            assert!(some.may_cross(filter), "{filter}");
        }
        for filter in ["a", "+", "a/x", "a/ctxt/#", "b/#", "+/x/#"] {
            assert!(all.may_cross(filter) && !some.may_cross(filter), "{filter}");
        }
        assert!(!all.may_cross("$SYS/#") && !some.may_cross("$SYS/#"));
        let told = |roster: &Roster, tenant, filter| roster.others_for(tenant, filter).has(ShardId(1));
        assert!(told(&some, TenantId::DEFAULT, "#") && !told(&some, TenantId::BROKER_LINK, "#"));
    }
}
