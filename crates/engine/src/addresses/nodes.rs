//! The sessions of nodes, and their interest that other shards know.

use super::groups::{MembershipChange, MembershipError, NodeGroups};
use crate::ids::{SessionKey, TenantId};
use crate::settings::Settings;
use crate::topics::SubscriptionIndex;
use crate::topics::address_name::is_group_name;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The subscriber of the index that represents all nodes of an address. No session has this key.
pub(crate) const ADDRESSED: SessionKey = SessionKey(u32::MAX - 1);

/// The nodes of a shard and their groups.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// How many each tenant has.
    pub(crate) by_tenant: BTreeMap<TenantId, u32>,
    pub(crate) groups: NodeGroups,
    /// How many of them are mailboxes.
    pub(crate) mailboxes: u64,
    /// Messages to several nodes whose senders have asked for receipts.
    pub(crate) asked: u64,
    /// Whether a route to a group or to all was made since nodes changed last.
    pub(crate) routed: bool,
}

impl Nodes {
    /// How many nodes there are, connected or not.
    pub(crate) fn len(&self) -> u64 {
        self.by_tenant.values().map(|count| u64::from(*count)).sum()
    }

    /// The members of a group, by their sessions.
    pub(crate) fn members(&self, tenant: TenantId, name: &str) -> &BTreeSet<u32> {
        self.groups.members(tenant, name)
    }

    /// The groups that a node is in.
    pub(crate) fn groups_of(&self, session: SessionKey) -> impl Iterator<Item = &str> {
        self.groups.of(session)
    }

    /// How many of them are mailboxes.
    pub(crate) fn mailboxes(&self) -> u64 {
        self.mailboxes
    }

    /// Subscriptions in the index that represent nodes.
    pub(crate) fn subscriptions(&self) -> u64 {
        self.by_tenant.len() as u64 + self.groups.len() as u64
    }
}

impl Nodes {
    /// Checks the names of a change, and the number of groups that the node would then be in.
    pub(crate) fn check_change(
        &self,
        settings: &Arc<Settings>,
        key: SessionKey,
        change: &MembershipChange,
    ) -> Result<(), MembershipError> {
        if let Some(name) = change.add.iter().find(|name| !is_group_name(name)) {
            return Err(MembershipError::InvalidName { name: name.clone() });
        }
        let max = settings.addresses.as_ref().map_or(0, |addresses| addresses.max_groups_per_node);
        let known: BTreeSet<&str> = self.groups.of(key).collect();
        let gone = change.remove.iter().filter(|name| known.contains(&***name) && !change.add.contains(name));
        let new: BTreeSet<&str> = change.add.iter().map(|name| &**name).filter(|name| !known.contains(name)).collect();
        let groups = known.len() - gone.collect::<BTreeSet<_>>().len() + new.len();
        if groups <= usize::from(max) {
            return Ok(());
        }
        Err(MembershipError::TooMany { client_id: change.client_id.clone(), groups, max })
    }

    /// Routes to several nodes that are remembered hold no longer.
    pub(crate) fn nodes_changed(&mut self, index: &mut SubscriptionIndex) {
        if std::mem::take(&mut self.routed) {
            index.change_rights();
        }
    }
}

impl Settings {
    /// The filter of all topics of an address to several nodes.
    pub(crate) fn filter_of(&self, kind: &str) -> String {
        let prefix = self.addresses.as_ref().map_or("", |addresses| &addresses.prefix);
        format!("{prefix}/to/{kind}/#")
    }
}
