//! The counts of a message to several nodes: the number of its receivers, and its outcome at each.
//!
//! Each shard counts its own nodes and reports to the shard where the message entered. That shard adds up and reports
//! to the sender: when all have counted, from time to time as long as something changes, and when nothing can change
//! any more.

use super::receipts::Receipt;
use crate::events::outcome::DeliveryOutcome;
use crate::ids::{ShardId, TenantId};
use crate::link::counts::Counts;
use crate::now::Millis;
use crate::roster::Shards;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages that a shard counts at once, as the one where they entered or for its own nodes. Beyond it, the counts of
/// the oldest end.
pub(super) const TALLIES_MAX: usize = 1024;

/// The counted receivers among a shard's receivers of a message.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Nodes that the message is for.
    pub members: u32,
    /// Receivers that the address does not include and that have subscribed to the topic: they are not counted.
    pub others: BTreeSet<Box<str>>,
}

/// The counts of a shard's own nodes.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) origin: ShardId,
    pub(crate) others: BTreeSet<Box<str>>,
    pub(crate) counts: Counts,
    pub(crate) changed: bool,
}

/// Sums at the shard where a message entered.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) tenant: TenantId,
    pub(crate) topic: Box<str>,
    pub(crate) receipt: Receipt,
    /// Shards that have not counted yet.
    pub(crate) awaited: Shards,
    pub(crate) parts: BTreeMap<ShardId, Counts>,
    pub(crate) changed: bool,
}

/// Messages whose receivers are counted.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) parts: BTreeMap<u64, Part>,
    pub(crate) wholes: BTreeMap<u64, Whole>,
    /// In the order of their arrival; some may be gone.
    parts_in_order: VecDeque<u64>,
    wholes_in_order: VecDeque<u64>,
    /// The time of the next report.
    pub(crate) due: Option<Millis>,
}

impl Tallies {
    /// The outcome of a node's part in a message is known; returns whether it is counted.
    pub(crate) fn note(&mut self, number: u64, node: &str, outcome: DeliveryOutcome) -> bool {
        let part = self.parts.get_mut(&number);
        if let Some(part) = part.filter(|part| !part.others.contains(node)) {
            part.counts.note(outcome);
            part.changed = true;
            return true;
        }
        false
    }

    /// Whether a timer is set.
    pub(crate) fn has_timer(&self) -> bool {
        self.due.is_some()
    }

    pub(crate) fn add_part(&mut self, number: u64, part: Part) {
        if self.parts.insert(number, part).is_none() {
            self.parts_in_order.push_back(number);
        }
        while self.parts_in_order.len() > TALLIES_MAX {
            let oldest = self.parts_in_order.pop_front();
            oldest.map(|oldest| self.parts.remove(&oldest));
        }
    }

    pub(crate) fn add_whole(&mut self, number: u64, whole: Whole) {
        self.wholes.insert(number, whole);
        self.wholes_in_order.push_back(number);
        while self.wholes_in_order.len() > TALLIES_MAX {
            let oldest = self.wholes_in_order.pop_front();
            oldest.map(|oldest| self.wholes.remove(&oldest));
        }
    }
}
