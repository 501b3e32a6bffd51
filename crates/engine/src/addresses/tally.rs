//! The counts of a message to several nodes: how many it was for, and what became of it.
//!
//! Each shard counts its own nodes, and tells the shard where the message entered; that one adds up and tells the
//! sender: when all have counted, from time to time as long as something changes, and when nothing can change any more.

use super::receipts::{Asked, Fate, Receipt, quoted};
use crate::cluster::roster::Shards;
use crate::desk::{Reporting, Timer};
use crate::ids::{ShardId, TenantId};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::telling::reason::Reason;
use crate::wire::{WireError, WireReader, WireWrite};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages that a shard counts at once, as the one where they entered or for its own nodes. Of the oldest beyond no
/// more is told.
pub(super) const TALLIES_MAX: usize = 1024;

/// Milliseconds between two counts that a sender is told.
const INTERVAL_MS: u64 = 1_000;

/// What became of a message, by number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub members: u32,
    pub delivered: u32,
    /// Were away when it came.
    pub stored: u32,
    pub expired: u32,
    pub dropped: u32,
}

impl Counts {
    fn note(&mut self, fate: Fate) {
        let count = match fate {
            Fate::Delivered => &mut self.delivered,
            Fate::Stored => &mut self.stored,
            Fate::Dropped(Reason::MessageExpired) => &mut self.expired,
            Fate::Dropped(_) => &mut self.dropped,
        };
        *count += 1;
    }

    fn add(&mut self, other: Self) {
        self.members += other.members;
        self.delivered += other.delivered;
        self.stored += other.stored;
        self.expired += other.expired;
        self.dropped += other.dropped;
    }

    pub(crate) fn is_final(self) -> bool {
        self.delivered + self.expired + self.dropped >= self.members
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        for count in [self.members, self.delivered, self.stored, self.expired, self.dropped] {
            out.put_u32(count);
        }
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let mut next = || reader.u32("a count of nodes");
        Ok(Self { members: next()?, delivered: next()?, stored: next()?, expired: next()?, dropped: next()? })
    }
}

/// Whom a shard counts of those that it delivers a message to.
#[derive(Debug)]
pub(crate) struct Counted {
    /// Nodes that the message is for.
    pub members: u32,
    /// Nodes that are none of them, and have subscribed to the topic by themselves: what becomes of it there is not
    /// counted.
    pub others: BTreeSet<Box<str>>,
}

/// What a shard counts of its own nodes.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) origin: ShardId,
    others: BTreeSet<Box<str>>,
    pub(crate) counts: Counts,
    pub(crate) changed: bool,
}

/// What the shard adds up where a message entered.
#[derive(Debug)]
pub(crate) struct Whole {
    tenant: TenantId,
    topic: Box<str>,
    receipt: Receipt,
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
    /// In the order in which they came, of which some may be gone.
    parts_in_order: VecDeque<u64>,
    wholes_in_order: VecDeque<u64>,
    /// When counts are told next.
    pub(crate) due: Option<Millis>,
}

impl Tallies {
    /// A node's part in a message has come to something; says whether it is counted.
    fn note(&mut self, number: u64, node: &str, fate: Fate) -> bool {
        let part = self.parts.get_mut(&number);
        if let Some(part) = part.filter(|part| !part.others.contains(node)) {
            part.counts.note(fate);
            part.changed = true;
            return true;
        }
        false
    }

    /// Whether a timer is set.
    pub(crate) fn has_timer(&self) -> bool {
        self.due.is_some()
    }

    fn add_part(&mut self, number: u64, part: Part) {
        if self.parts.insert(number, part).is_none() {
            self.parts_in_order.push_back(number);
        }
        while self.parts_in_order.len() > TALLIES_MAX {
            let oldest = self.parts_in_order.pop_front();
            oldest.map(|oldest| self.parts.remove(&oldest));
        }
    }

    fn add_whole(&mut self, number: u64, whole: Whole) {
        self.wholes.insert(number, whole);
        self.wholes_in_order.push_back(number);
        while self.wholes_in_order.len() > TALLIES_MAX {
            let oldest = self.wholes_in_order.pop_front();
            oldest.map(|oldest| self.wholes.remove(&oldest));
        }
    }
}

impl Reporting<'_> {
    /// A message to several nodes has entered here, or come from another shard: those among its receivers that it is
    /// for are counted.
    pub(crate) fn begin_tally(
        &mut self,
        now: Now,
        publication: &Publication<'_>,
        counted: Counted,
        origin: ShardId,
        awaited: Option<Shards>,
    ) {
        let Some(asked) = Asked::read(publication.properties).filter(|asked| asked.number != 0) else { return };
        let Counted { members, others } = counted;
        let part = Part { origin, others, counts: Counts { members, ..Counts::default() }, changed: true };
        self.tallies.add_part(asked.number, part);
        if let Some(awaited) = awaited {
            let whole = Whole {
                tenant: publication.tenant,
                topic: publication.topic.into(),
                receipt: Receipt::new(publication.tenant, &asked, publication.qos, String::new()),
                awaited,
                parts: BTreeMap::new(),
                changed: true,
            };
            self.tallies.add_whole(asked.number, whole);
        }
        self.tell_counts_later(now.monotonic);
    }

    /// A node's part in a message has come to something.
    pub(super) fn note_fate(&mut self, number: u64, node: &str, fate: Fate) {
        if self.tallies.note(number, node, fate) {
            self.tell_counts_later(self.now);
        }
    }

    pub(crate) fn tell_counts_later(&mut self, now: Millis) {
        if self.tallies.due.is_none() {
            let due = now.plus(INTERVAL_MS);
            self.tallies.due = Some(due);
            self.timers.set(due, Timer::Receipts);
        }
    }

    pub(crate) fn tell_counts_of(&mut self, number: u64) {
        let Some(whole) = self.tallies.wholes.get_mut(&number) else { return };
        if whole.awaited != Shards::default() {
            // The last of them sets the timer again.
            return;
        }
        whole.changed = false;
        let mut all = Counts::default();
        whole.parts.values().for_each(|part| all.add(*part));
        let is_final = all.is_final();
        let payload = format!(
            "{{\"receipt\":\"counts\",\"topic\":{},\"members\":{},\"delivered\":{},\"stored\":{},\"expired\":{},\"dropped\":{},\"final\":{is_final}}}",
            quoted(&whole.topic),
            all.members,
            all.delivered,
            all.stored,
            all.expired,
            all.dropped
        );
        let told = Receipt {
            to: whole.receipt.to.clone(),
            correlation: whole.receipt.correlation.clone(),
            tenant: whole.tenant,
            qos: whole.receipt.qos,
            payload,
        };
        self.receipts.push(told);
        if is_final {
            self.tallies.wholes.remove(&number);
        }
    }
}
