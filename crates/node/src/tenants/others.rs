//! The use of tenants at the other nodes of a cluster, as they have announced it.

use std::collections::BTreeMap;

use tidegate_engine::TenantId;

use super::announcement::{Announcement, KINDS, NodeUse};
use super::rates::Demand;

/// How long the last announcement of a silent node counts, milliseconds: its link may be slow. A node that has left the
/// cluster is forgotten at once.
const SILENT_MS: u64 = 5_000;
/// Time between two looks that counts at most, milliseconds. In a longer time this process stood still, and could hear no
/// node.
const LONGEST_STEP_MS: u64 = 2_000;

/// The last announcements of other nodes.
#[derive(Debug, Default)]
pub(super) struct Others {
    nodes: BTreeMap<Box<str>, Other>,
    /// When they were looked at last, milliseconds of the monotonic clock.
    seen: u64,
    /// The time in which this process could hear them, milliseconds.
    listened: u64,
}

#[derive(Debug, Default)]
struct Other {
    /// When its last announcement came, in the time of `listened`.
    heard: u64,
    uses: BTreeMap<TenantId, NodeUse>,
}

impl Others {
    /// Takes the announcement of a node. Returns whether it was not heard before.
    pub(super) fn take(&mut self, now: u64, node: &str, announcement: Announcement) -> bool {
        self.listen(now);
        let is_new = !self.nodes.contains_key(node);
        let other = self.nodes.entry(node.into()).or_default();
        other.heard = self.listened;
        if announcement.is_whole {
            other.uses = announcement.uses;
        } else {
            other.uses.extend(announcement.uses);
        }
        is_new
    }

    /// Forgets nodes that have been silent for too long.
    pub(super) fn forget_silent(&mut self, now: u64) {
        self.listen(now);
        self.nodes.retain(|_, other| self.listened - other.heard <= SILENT_MS);
    }

    /// Forgets nodes that are no members. Returns whether there were any.
    pub(super) fn keep_members(&mut self, is_member: impl Fn(&str) -> bool) -> bool {
        let before = self.nodes.len();
        self.nodes.retain(|name, _| is_member(name));
        self.nodes.len() < before
    }

    fn listen(&mut self, now: u64) {
        self.listened += now.saturating_sub(self.seen).min(LONGEST_STEP_MS);
        self.seen = self.seen.max(now);
    }

    /// How many nodes are heard.
    pub(super) fn len(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// How much a tenant has at all of them, by the numbers of [`Holding`](tidegate_engine::Holding).
    pub(super) fn counts(&self, tenant: TenantId) -> [u64; KINDS] {
        let mut sums = [0; KINDS];
        for of in self.uses(tenant) {
            for (sum, count) in sums.iter_mut().zip(of.counts) {
                *sum += u64::from(count);
            }
        }
        sums
    }

    /// The messages of a tenant at each of them.
    pub(super) fn demands(&self, tenant: TenantId) -> impl Iterator<Item = Demand> {
        self.uses(tenant).map(|of| of.demand)
    }

    fn uses(&self, tenant: TenantId) -> impl Iterator<Item = NodeUse> {
        self.nodes.values().map(move |other| other.uses.get(&tenant).copied().unwrap_or_default())
    }
}
