//! The groups of nodes (CTX-33). Another part decides about them and notifies the engine.

use crate::ids::{SessionKey, TenantId};
use crate::slab::Slab;
use crate::topics::address_name::GROUP_NAME_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// The groups of a shard's nodes. A membership costs about 16 bytes.
#[derive(Debug, Default)]
pub(crate) struct NodeGroups {
    pub(crate) groups: Slab<Group>,
    by_name: BTreeMap<(TenantId, Box<str>), u32>,
    /// The groups of each node that is in any.
    pub(crate) by_session: BTreeMap<u32, Vec<u32>>,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) tenant: TenantId,
    pub(crate) name: Box<str>,
    members: BTreeSet<u32>,
}

/// A node joins groups and leaves others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembershipChange {
    /// The node's tenant.
    pub tenant: TenantId,
    /// Its client id.
    pub client_id: String,
    /// Groups to join.
    pub add: Vec<String>,
    /// Groups to leave; a group in both lists is joined.
    pub remove: Vec<String>,
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// The name cannot be that of a group.
    #[error("{name:?} cannot be a group: its name must be one level of a topic, of 1 to {GROUP_NAME_MAX} bytes")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// The node would be in too many groups.
    #[error("{client_id:?} would be in {groups} groups; at most {max} may be (addresses.max_groups_per_node)")]
    TooMany {
        /// The node.
        client_id: String,
        /// How many groups it would be in.
        groups: usize,
        /// How many it may be in.
        max: u16,
    },
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipOutcome {
    /// The node is in exactly the requested ones of the named groups.
    Done,
    /// There is no such node here: it has never connected, or has been away for too long. It is in no group.
    NoSuchNode,
    /// Nothing has changed.
    Refused(MembershipError),
}

impl NodeGroups {
    /// How many groups have members here.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The members of a group, by their sessions.
    pub(super) fn members(&self, tenant: TenantId, name: &str) -> &BTreeSet<u32> {
        const NONE: &BTreeSet<u32> = &BTreeSet::new();
        self.find(tenant, name).and_then(|key| self.groups.get(key)).map_or(NONE, |group| &group.members)
    }

    /// The groups of a node.
    pub(crate) fn of(&self, session: SessionKey) -> impl Iterator<Item = &str> {
        let groups = self.by_session.get(&session.0).into_iter().flatten();
        groups.filter_map(|key| self.groups.get(*key)).map(|group| &*group.name)
    }

    pub(crate) fn find(&self, tenant: TenantId, name: &str) -> Option<u32> {
        self.by_name.get(&(tenant, Box::from(name))).copied()
    }

    /// Adds a member; returns whether the group is new, or `None` if nothing changed.
    pub(crate) fn join(&mut self, tenant: TenantId, name: &str, session: SessionKey) -> Option<bool> {
        let known = self.find(tenant, name);
        let key = known.unwrap_or_else(|| {
            let key = self.groups.insert(Group { tenant, name: name.into(), members: BTreeSet::new() });
            self.by_name.insert((tenant, name.into()), key);
            key
        });
        if !self.groups.get_mut(key)?.members.insert(session.0) {
            return None;
        }
        let of_session = self.by_session.entry(session.0).or_default();
        of_session.reserve_exact(1);
        of_session.push(key);
        Some(known.is_none())
    }

    /// Removes a member; returns whether the group is gone with it, or `None` if nothing changed.
    pub(crate) fn leave(&mut self, key: u32, session: SessionKey) -> Option<bool> {
        let group = self.groups.get_mut(key)?;
        if !group.members.remove(&session.0) {
            return None;
        }
        let empty = group.members.is_empty();
        if empty && let Some(group) = self.groups.remove(key) {
            self.by_name.remove(&(group.tenant, group.name));
        }
        if let Some(of_session) = self.by_session.get_mut(&session.0) {
            of_session.retain(|other| *other != key);
            if of_session.is_empty() {
                self.by_session.remove(&session.0);
            }
        }
        Some(empty)
    }
}
