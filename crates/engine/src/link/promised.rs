//! Records that must not reach another node before the commit of their promise.
//!
//! Another node outlives this one, so it must not learn that a message is kept here as long as a crash can undo that.
//! Answers that say so wait here, each for its batch of the journal; other records that may promise something mark
//! their batch, which the shell holds back. The rest, mostly messages at QoS 0 and 1, leaves at once: a crash can only
//! duplicate it.

use std::collections::VecDeque;

use tidegate_mqtt::QoS;

use super::envelope::Ticket;
use super::record::Record;
use super::{Batch, Links};
use crate::events::reason::Reason;
use crate::ids::ShardId;

/// An answer with a promise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Promised {
    /// A message is kept where it must be, or was refused.
    Confirm { ticket: Ticket, refused: Option<Reason> },
    /// No other shard has to keep a message of a group.
    Dealt { id: u64 },
}

impl Promised {
    fn record(self) -> Record<'static> {
        match self {
            // The shard that passes it on has no commit to wait for.
            Self::Confirm { ticket, refused } => Record::Confirm { ticket, refused, promises: false },
            Self::Dealt { id } => Record::Dealt { id },
        }
    }
}

/// Answers and the batches of the journal that they wait for, in their order. There are no more than messages that
/// others wait for.
pub(super) type PromisedAnswers = VecDeque<(u64, ShardId, Promised)>;

impl Links {
    /// Answers a shard: at once, or when a batch of the journal is committed if it is at another node.
    pub(crate) fn answer(&mut self, shard: ShardId, promised: Promised, batch: Option<u64>) {
        match batch.filter(|_| self.peers.has(shard)) {
            Some(batch) => self.promised.push_back((batch, shard, promised)),
            None => self.send_now(shard, promised.record()),
        }
    }

    /// Deals a message. At QoS 1 a second delivery of it is allowed; at QoS 2 the receiver must be stored first.
    pub(crate) fn send_deal(&mut self, shard: ShardId, record: Record<'_>, is_clients: bool) {
        let qos = record.envelope().map_or(QoS::ExactlyOnce, |envelope| envelope.publication.qos);
        match qos {
            QoS::AtLeastOnce => self.send_now(shard, record),
            QoS::AtMostOnce if is_clients => self.send_now(shard, record),
            _ => self.send(shard, record),
        }
    }

    /// All batches of the journal up to this one are committed.
    pub(crate) fn send_promised(&mut self, committed: u64) {
        while let Some((batch, shard, promised)) = self.promised.front().copied()
            && batch <= committed
        {
            self.promised.pop_front();
            self.send_now(shard, promised.record());
        }
    }

    /// Whether an answer to a shard of another node waits for a commit.
    pub(crate) fn has_promised(&self) -> bool {
        !self.promised.is_empty()
    }

    /// Whether a shard is at another node.
    #[inline]
    pub(crate) fn is_foreign(&self, shard: ShardId) -> bool {
        self.peers.has(shard)
    }
}

impl Batch {
    /// Whether another node may get it only after the commit of all that was written before it.
    pub fn promises(&self) -> bool {
        self.promises
    }
}
