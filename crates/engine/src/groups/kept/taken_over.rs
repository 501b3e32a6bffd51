//! Messages kept by groups, as a part of images: another node continues with them when their home is dead.
//!
//! A living old home keeps its dealt messages until members confirm them, and gives messages without a receiver to the
//! new home. If it dies after its groups have moved away, no node replaces it as their home. So its kept messages
//! travel in the image of the partitions that it still held, to the node that takes over this image, and from there to
//! the groups' home.

use super::group_partition;
use crate::groups::Groups;
use crate::groups::kept::{Deal, Kept};
use crate::ids::{BROKER_LINK_PARTITION, PartitionId, Partitions};
use crate::link::Links;
use crate::message::MessageRef;
use crate::now::Now;
use crate::records::image::put_publication;
use crate::roster::Roster;
use crate::roster::Shards;
use crate::state::ShardState;
use crate::wire::WireWrite;

/// A message that a group keeps.
pub(crate) struct KeptImage {
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    /// Hash of the client id of the only member that may get it; 0 for any.
    pub(crate) client: u64,
    pub(crate) id: u64,
    pub(crate) message: MessageRef,
}

impl Kept {
    /// Keeps the groups' messages from the image of a partition. Messages from an earlier attempt are here already.
    pub(crate) fn adopt_kept(
        &mut self,
        now: Now,
        state: &mut ShardState,
        links: &mut Links,
        partition: PartitionId,
        all: Vec<KeptImage>,
    ) {
        for KeptImage { share, filter, client, id, message } in all {
            let of = group_partition(message.tenant, &share, &filter);
            if of == partition || !links.is_taken_over_elsewhere(of) {
                self.keep_left(now, state, &message, (&share, &filter), client, id);
            }
        }
    }
}

impl Groups {
    /// Writes the kept messages of groups of some partitions, if only the image can bring them to the new home.
    pub(crate) fn put_kept(&self, roster: &Roster, out: &mut Vec<u8>, now: Now, partitions: Partitions) {
        let kept = &self.kept;
        let alone = roster.peers() == Shards::default();
        let ids = if alone { kept.ids_of(partitions) } else { Vec::new() };
        out.put_u32(ids.len() as u32);
        for (id, deal) in ids.into_iter().filter_map(|id| Some((id, kept.deals.get(&id)?))) {
            out.put_u16(deal.message.tenant.0);
            out.put_bytes(deal.share.as_bytes());
            out.put_bytes(deal.filter.as_bytes());
            out.put_u64(deal.client);
            out.put_u64(id);
            put_publication(out, now, &deal.message.publication());
        }
    }
}

impl Links {
    /// True if another shard takes over a dead node's part of a partition, and with it the state of its groups.
    pub(crate) fn is_taken_over_elsewhere(&self, partition: PartitionId) -> bool {
        self.roster.misses(partition) && !self.roster.is_substitute_for(partition)
    }
}

impl super::Kept {
    /// The kept messages of groups of some partitions, in their order. The group of the broker links is with their sessions.
    fn ids_of(&self, partitions: Partitions) -> Vec<u64> {
        let of = |deal: &Deal| match group_partition(deal.message.tenant, &deal.share, &deal.filter) {
            BROKER_LINK_PARTITION => PartitionId(0),
            partition => partition,
        };
        self.ids(|deal| partitions.has(of(deal)))
    }
}
