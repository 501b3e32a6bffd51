//! Shared subscriptions: each group has a home shard that deals its messages to members on any shard.

mod audit;
pub(crate) mod dealers;
mod existence;
pub(crate) mod joins;
pub(crate) mod kept;
pub(crate) mod names;
mod reseat;
pub(crate) mod returns;
pub(crate) mod shared_group;

use self::dealers::Dealers;
use self::kept::Kept;
pub(crate) use self::names::read_group_names;
pub(crate) use self::returns::Returned;
use crate::groups::shared_group::Group;
pub(crate) use crate::ids::group_partition;
use crate::ids::{PartitionId, SessionKey, ShardId, ShardPosition, TenantId, partition_of_hash};
use crate::link::envelope::Ticket;
use crate::link::record::{GroupName, MemberOptions};
use crate::roster::Roster;
use crate::session::table::Sessions;
use crate::slab::Slab;
use crate::topics::GroupKey;
use std::collections::BTreeMap;

/// The groups that this shard deals for.
#[derive(Debug)]
pub(crate) struct Groups {
    by_name: BTreeMap<(TenantId, Box<str>, Box<str>), GroupKey>,
    pub(crate) dealt: Slab<DealtGroup>,
    /// Joins from other shards that wait until all shards know of the group.
    pub(crate) joining: BTreeMap<u32, Joining>,
    pub(crate) next_joining: u32,
    /// Messages given to other nodes that have not answered for them yet.
    pub(crate) kept: Kept,
    pub(crate) dealers: Dealers,
}

#[derive(Debug)]
pub(crate) struct DealtGroup {
    pub(crate) tenant: TenantId,
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    pub(crate) partition: PartitionId,
    pub(crate) members: Group<Receiver, Seat>,
    /// Whether the store has its name.
    pub(crate) is_stored: bool,
}

/// Whether no node serves the partition of a member with this client's hash. A node that takes it over may have the session
/// already: if it dies before it serves the partition, another node takes the session from the store of the dead home,
/// without the messages that a group has dealt to it.
#[inline]
pub(crate) fn lacks_home(roster: &Roster, client: u64) -> bool {
    roster.misses_any() && roster.misses(partition_of_hash(client))
}

/// A member: a session of a shard.
pub(crate) type Receiver = (ShardId, u32);

/// A member's place at the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    /// Hash of the client id: a slot that another client has taken since is not mistaken for it.
    pub client: u64,
    pub member: MemberOptions,
    /// A member of another shard gave a message back; it says when it has room again.
    pub full: bool,
}

/// The receiver to which a group of another shard has dealt a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker<'a> {
    pub session: SessionKey,
    /// Hash of the client id, as in [`Seat`].
    pub client: u64,
    pub group: GroupName<'a>,
    /// Whether all members are full, so that the overflow policy of this one applies.
    pub insists: bool,
    /// Under which id the group keeps the message; 0 if it does not.
    pub id: u64,
}

#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) shard: ShardId,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) waits: u16,
}

/// Tickets with this connection index belong to a join from another shard, numbered by the generation.
pub(crate) const JOINING_INDEX: u32 = u32::MAX - 1;

/// A message that returned this often finds no taker.
pub(crate) const RETURNS_MAX: u8 = 16;

impl Groups {
    /// `seed` makes the ids of dealt messages differ from ids of other shards.
    pub(crate) fn new(seed: u64, place: ShardPosition) -> Self {
        Self {
            by_name: BTreeMap::new(),
            dealt: Slab::default(),
            joining: BTreeMap::new(),
            next_joining: 0,
            kept: Kept::new(seed),
            dealers: Dealers::new(place),
        }
    }

    /// The members of a group that this shard deals for.
    pub(crate) fn members(&self, key: GroupKey) -> impl Iterator<Item = Receiver> {
        self.dealt.get(key.0).into_iter().flat_map(|dealt| dealt.members.members()).map(|member| member.receiver)
    }
}

impl Groups {
    /// The only member of a group, if it is online and of this shard, which deals.
    #[inline]
    pub(crate) fn sole_receiver_here(&self, key: GroupKey) -> Option<SessionKey> {
        let (shard, session) = *self.dealt.get(key.0)?.members.sole_online()?;
        (shard == self.dealers.own).then_some(SessionKey(session))
    }
}

impl Sessions {
    /// Whether a session ends with its connection, so that nothing of it is in the store.
    pub(crate) fn is_fleeting(&self, key: SessionKey) -> bool {
        self.get(key.0).is_some_and(|session| session.stored.is_none())
    }
}

impl Groups {
    /// The partition whose place deals for a group.
    pub(crate) fn partition_of(&self, key: GroupKey) -> Option<PartitionId> {
        self.dealt.get(key.0).map(|dealt| dealt.partition)
    }

    pub(crate) fn find(&self, group: GroupName<'_>) -> Option<GroupKey> {
        self.by_name.get(&(group.tenant, Box::from(group.share), Box::from(group.filter))).copied()
    }

    pub(crate) fn find_or_make(&mut self, group: GroupName<'_>, strategy: crate::settings::SharedStrategy) -> GroupKey {
        if let Some(key) = self.find(group) {
            return key;
        }
        let key = GroupKey(self.dealt.insert(DealtGroup {
            tenant: group.tenant,
            share: group.share.into(),
            filter: group.filter.into(),
            partition: group_partition(group.tenant, group.share, group.filter),
            members: Group::new(strategy),
            is_stored: false,
        }));
        self.by_name.insert((group.tenant, group.share.into(), group.filter.into()), key);
        key
    }

    pub(crate) fn remove(&mut self, key: GroupKey) -> Option<DealtGroup> {
        let dealt = self.dealt.remove(key.0)?;
        self.by_name.remove(&(dealt.tenant, dealt.share.clone(), dealt.filter.clone()));
        Some(dealt)
    }

    /// Whether a member has a seat in a group of this shard.
    pub(crate) fn has_seat(&self, group: GroupName<'_>, member: Receiver) -> bool {
        let dealt = self.find(group).and_then(|key| self.dealt.get(key.0));
        dealt.is_some_and(|dealt| dealt.members.members().iter().any(|other| other.receiver == member))
    }

    /// A member of another shard gave a message back.
    pub(crate) fn set_full(&mut self, group: GroupName<'_>, shard: ShardId, session: u32) {
        let dealt = self.find(group).and_then(|key| self.dealt.get_mut(key.0));
        if let Some(seat) = dealt.and_then(|dealt| dealt.members.options_mut(&(shard, session))) {
            seat.full = true;
        }
    }

    /// A member of a group of this shard went online or offline, or has room again.
    pub(crate) fn set_online(&mut self, group: GroupName<'_>, shard: ShardId, session: u32, online: bool) {
        if let Some(key) = self.find(group)
            && let Some(dealt) = self.dealt.get_mut(key.0)
        {
            dealt.members.set_online(&(shard, session), online);
            if let Some(seat) = dealt.members.options_mut(&(shard, session)) {
                seat.full = false;
            }
        }
    }
}
