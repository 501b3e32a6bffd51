//! The names of shared groups that an orchestrator deals, in the store and in images.
//!
//! A broker keeps messages for a connection while its orchestrator is away, and sends them before the members of a group
//! have taken their seats again. So the home of a group knows the group by its name alone: after a restart from the
//! store, and after a move or a takeover from the image of the partition.

use crate::groups::{DealtGroup, Groups, group_partition};
use crate::ids::{PartitionId, TenantId};
use crate::journal::Journal;
use crate::journal::keys::{Key, STORED_NAME_MAX};
use crate::link::record::GroupName;
use crate::roster::Roster;
use crate::state::ShardState;
use crate::topics::GroupKey;
use crate::wire::{WireError, WireReader, WireWrite};

/// A group by its tenant, the name of its share, and its filter.
pub(crate) type NameOfGroup = (TenantId, Box<str>, Box<str>);

impl DealtGroup {
    fn name(&self) -> GroupName<'_> {
        GroupName { tenant: self.tenant, share: &self.share, filter: &self.filter }
    }

    /// Deletes its name from the store.
    pub(crate) fn forget_name(&self, journal: &mut Journal) {
        if self.is_stored {
            journal.delete(Key::Group(self.tenant, &self.name().text()));
        }
    }
}

impl Groups {
    /// Stores the names of the groups whose home is this shard, in a cluster of orchestrators.
    pub(crate) fn store_names(&mut self, state: &mut ShardState, roster: &Roster) {
        if !roster.is_of_orchestrators() || !state.journal.is_on() {
            return;
        }
        let unstored: Vec<GroupKey> =
            self.dealt.iter().filter(|(_, dealt)| !dealt.is_stored).map(|(key, _)| GroupKey(key)).collect();
        for key in unstored {
            self.store_name(state, roster, key);
        }
    }

    /// Stores the name of a group, if its home is this shard or is about to be.
    pub(crate) fn store_name(&mut self, state: &mut ShardState, roster: &Roster, key: GroupKey) {
        if !roster.is_of_orchestrators() || !state.journal.is_on() {
            return;
        }
        let Some(dealt) = self.dealt.get_mut(key.0).filter(|dealt| !dealt.is_stored) else { return };
        let partition = dealt.partition;
        let is_here = roster.works(partition) || state.departures.keep(roster, state.moving, partition);
        let name = dealt.name().text();
        if is_here && dealt.tenant != TenantId::BROKER_LINK && name.len() <= STORED_NAME_MAX {
            dealt.is_stored = true;
            state.journal.put(Key::Group(dealt.tenant, &name), |_| {});
        }
    }

    /// Writes the names of the groups of a partition into its image, in a cluster of orchestrators. Without any, nothing is
    /// written.
    pub(crate) fn put_names(&self, out: &mut Vec<u8>, roster: &Roster, partition: PartitionId) {
        // The store of a dead member is read without a roster.
        let is_named = |dealt: &DealtGroup| dealt.is_stored || roster.is_of_orchestrators();
        let names = self.dealt.iter().filter(|(_, dealt)| dealt.partition == partition && is_named(dealt));
        let names: Vec<GroupName<'_>> = names.map(|(_, dealt)| dealt.name()).collect();
        if names.is_empty() {
            return;
        }
        out.put_u32(names.len() as u32);
        for GroupName { tenant, share, filter } in names {
            out.put_u16(tenant.0);
            out.put_bytes(share.as_bytes());
            out.put_bytes(filter.as_bytes());
        }
    }
}

/// Reads the output of [`Groups::put_names`].
pub(crate) fn read_group_names(
    partition: PartitionId,
    reader: &mut WireReader<'_>,
) -> Result<Vec<NameOfGroup>, WireError> {
    let mut names = Vec::new();
    if reader.is_empty() {
        return Ok(names);
    }
    for _ in 0..reader.u32("a number of groups")? {
        let tenant = TenantId(reader.u16("a tenant")?);
        let (share, filter) = (reader.text("a share name")?, reader.text("a topic filter")?);
        if group_partition(tenant, share, filter) != partition {
            return Err(WireError { reading: "a group of this partition" });
        }
        names.push((tenant, share.into(), filter.into()));
    }
    Ok(names)
}
