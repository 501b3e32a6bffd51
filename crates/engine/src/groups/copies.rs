//! Members of a group whose sessions here are copies, since their partitions move between members of a cluster of
//! orchestrators.

use crate::groups::{Groups, Receiver, Seat, shared_group::Member};
use crate::ids::{Partitions, TenantId, partition_of_hash};
use crate::message::Publication;
use crate::state::ShardState;
use crate::state::departures::Departures;
use crate::topics::GroupKey;

/// The partitions of such members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    /// Their members get a message if there are no others.
    avoided: Partitions,
    /// Their members get none.
    over: Partitions,
}

impl Copies {
    /// Those for a message of a group; `None` where all members may get it. `has_brokers` is true where brokers deliver
    /// the messages of the group; messages that go over links have another rule.
    pub(crate) fn of(state: &ShardState, has_brokers: bool, publication: &Publication<'_>) -> Option<Self> {
        if !has_brokers || !state.departures.are_there && state.moving.is_empty() {
            return None;
        }
        if state.settings.is_of_addresses(publication.topic.as_bytes()) {
            return None;
        }
        let Departures { begun, over, .. } = state.departures;
        Some(Self { avoided: begun.with(state.moving), over })
    }

    pub(crate) fn avoids(&self, member: &Member<Receiver, Seat>) -> bool {
        self.avoided.has(partition_of_hash(member.identity))
    }

    pub(crate) fn excludes(&self, member: &Member<Receiver, Seat>) -> bool {
        self.over.has(partition_of_hash(member.identity))
    }
}

impl Groups {
    /// The partitions of a group's members; none for the group of the brokers.
    pub(crate) fn partitions_of_members(&self, key: GroupKey) -> Partitions {
        let dealt = self.dealt.get(key.0).filter(|dealt| dealt.tenant != TenantId::BROKER_LINK);
        let members = dealt.into_iter().flat_map(|dealt| dealt.members.members());
        members.map(|member| partition_of_hash(member.identity)).collect()
    }

    /// Whether a group has members, and all of them are of these partitions.
    pub(crate) fn are_all_of(&self, key: GroupKey, partitions: Partitions) -> bool {
        if partitions.is_empty() {
            return false;
        }
        let members = self.partitions_of_members(key);
        !members.is_empty() && members.without(partitions).is_empty()
    }

    /// Whether messages of a group are forwarded to the new homes of its members: all of them leave, and one has these
    /// partitions as its own.
    pub(crate) fn leaves_with(&self, key: GroupKey, partitions: Partitions, departures: &Departures) -> bool {
        self.are_all_of(key, departures.begun) && !self.partitions_of_members(key).among(partitions).is_empty()
    }
}
