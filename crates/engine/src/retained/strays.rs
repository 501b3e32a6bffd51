//! Values that are kept here for a home that cannot be reached.

use crate::ids::{ConnectionKey, PartitionId, Partitions, ShardId, TenantId};
use crate::link::envelope::Ticket;
use std::collections::{BTreeMap, VecDeque};

/// Tickets with this connection index belong to values in transit to their home.
pub(crate) const STRAY_INDEX: u32 = u32::MAX - 6;

/// Maximum number of values in transit to their homes at the same time.
pub(super) const UNDER_WAY_MAX: usize = 256;

/// A topic.
pub(super) type Name = (TenantId, Box<str>);

/// Values that are kept here and are at home elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    /// Partitions that may have some.
    pub(super) partitions: Partitions,
    /// Those whose home is known, and which are sent next.
    pub(super) next: VecDeque<Name>,
    /// Under way: of each ticket the topic, the version, and the home that is to confirm it.
    pub(super) under_way: BTreeMap<u64, (Name, u64, ShardId)>,
    next_ticket: u64,
}

impl Strays {
    /// Whether no value is kept for another home.
    pub(super) fn are_none(&self) -> bool {
        self.partitions.is_empty()
    }

    /// A value of a partition is kept here.
    pub(crate) fn note(&mut self, partition: PartitionId) {
        self.partitions.add(partition);
    }

    pub(super) fn new_ticket(&mut self, name: Name, version: u64, home: ShardId) -> Ticket {
        self.next_ticket += 1;
        self.under_way.insert(self.next_ticket, (name, version, home));
        let connection = ConnectionKey { index: STRAY_INDEX, generation: (self.next_ticket >> 32) as u32 };
        Ticket { connection, sequence: self.next_ticket as u32 }
    }
}
