//! What groups keep, as a part of images: another node goes on with it where theirs is dead.
//!
//! Where the old home lives, it keeps what it has given to members until they answer for it, and gives what is nowhere
//! to the new home itself. If it dies after its groups have moved away, nobody takes its place as their home. So what
//! it still keeps for them goes along with what it was home to until then, to whoever goes on with that, and from there
//! to the groups' home.

use crate::cluster::roster::Roster;
use crate::desk::Desk;
use crate::groups::Groups;
use crate::groups::kept::Kept;
use crate::link::Links;
use tidegate_mqtt::QoS;

use super::group_partition;
use crate::cluster::roster::Shards;
use crate::engine::Engine;
use crate::ids::{PartitionId, Partitions, TenantId};
use crate::image::{put_publication, read_publication};
use crate::message::MessageRef;
use crate::now::Now;
use crate::wire::{WireError, WireReader, WireWrite};

/// A message that a group keeps.
pub(crate) struct KeptImage {
    share: Box<str>,
    filter: Box<str>,
    /// Hash of the client id of the only member that may get it; 0 for any.
    client: u64,
    id: u64,
    message: MessageRef,
}

impl Engine {
    /// Reads what [`Engine::put_kept`] has written.
    pub(crate) fn read_kept(reader: &mut WireReader<'_>, now: Now) -> Result<Vec<KeptImage>, WireError> {
        let mut all = Vec::new();
        for _ in 0..reader.u32("a number of messages of groups")? {
            let tenant = TenantId(reader.u16("a tenant")?);
            let (share, filter) = (reader.text("a share name")?, reader.text("a topic filter")?);
            let (client, id) = (reader.u64("a client")?, reader.u64("a number of a message")?);
            let message = read_publication(reader, now, tenant)?;
            if id == 0 || message.qos == QoS::AtMostOnce {
                return Err(WireError { reading: "a message of a group" });
            }
            all.push(KeptImage { share: share.into(), filter: filter.into(), client, id, message });
        }
        Ok(all)
    }
}

impl Kept {
    /// Goes on keeping what groups kept elsewhere, with what came in the image of a partition. What an earlier attempt
    /// has brought is here already.
    pub(crate) fn adopt_kept(
        &mut self,
        now: Now,
        desk: &mut Desk,
        links: &mut Links,
        partition: PartitionId,
        all: Vec<KeptImage>,
    ) {
        for KeptImage { share, filter, client, id, message } in all {
            let of = group_partition(message.tenant, &share, &filter);
            if of == partition || !links.is_taken_over_elsewhere(of) {
                self.keep_left(now, desk, &message, (&share, &filter), client, id);
            }
        }
    }
}

impl Groups {
    /// Writes what groups of some partitions keep, if nobody but the image can tell it to the new home.
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
    /// Whether somebody goes on with what a dead node had of a partition, and so with what is known there of its
    /// groups.
    pub(crate) fn is_taken_over_elsewhere(&self, partition: PartitionId) -> bool {
        self.roster.misses(partition) && !self.roster.stands_in(partition)
    }
}

impl super::Kept {
    /// What groups of some partitions keep, in its order.
    fn ids_of(&self, partitions: Partitions) -> Vec<u64> {
        self.ids(|deal| partitions.has(group_partition(deal.message.tenant, &deal.share, &deal.filter)))
    }
}
