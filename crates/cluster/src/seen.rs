//! Observations of the leader.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Advert, Factor};

/// A member of the cluster's group as the leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The life of the node.
    pub life: u64,
    /// It has been this life for at least a lease by the leader's clock: an earlier one has ended, of any process.
    pub settled: bool,
}

/// The observations of the leader.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The members of the group.
    pub members: BTreeMap<String, Sighting>,
    /// The newest advert of each node.
    pub adverts: BTreeMap<String, Advert>,
    /// True if a node outside the group is dead: the leader has watched for at least a lease.
    pub may_bury: bool,
    /// Whether partitions may be moved now. Not so for a while after a move has failed.
    pub may_move: bool,
    /// Whether shares may be made even. Not so for a while after a node has gone: it may return, and others may be
    /// about to go.
    pub may_balance: bool,
    /// The factors of members that change with the next table.
    pub factors: Option<BTreeMap<String, Factor>>,
    /// Nodes that are no members for now, and keep their factors.
    pub expected: BTreeSet<String>,
    /// The leader, and the nodes that it has links with. `None` where links are not looked at.
    pub linked: Option<BTreeSet<String>>,
}

impl Seen {
    /// The configured weight of a node, from 1 to [`Weight::MAX`](crate::Weight::MAX).
    pub fn weight(&self, name: &str) -> u64 {
        self.adverts.get(name).map(|advert| advert.weight).unwrap_or_default().counted()
    }

    /// The advert of a node that is a member.
    pub(crate) fn present(&self, name: &str) -> Option<&Advert> {
        let advert = self.adverts.get(name)?;
        self.members.get(name).filter(|member| member.life == advert.life).map(|_| advert)
    }
}
