//! Links between shards: records gathered into batches, with a bound on what is under way.
//!
//! A shard never waits for another. What it owes others is gathered during a turn and handed over as one batch each; what
//! is under way towards a shard is bounded by parking the publishers that cause it, never by refusing to read an inbox, so
//! that no two inboxes can wait for each other.

pub(crate) mod envelope;
pub(crate) mod record;

use std::sync::Arc;

use crate::ids::{ConnectionKey, Place, ShardId};
use record::Record;

/// Records for one shard from one other.
#[derive(Debug)]
pub struct Batch {
    /// The shard that wrote it.
    pub from: ShardId,
    pub(crate) bytes: Vec<u8>,
    pub(crate) shared: Vec<Arc<[u8]>>,
}

impl Batch {
    /// Bytes that it holds, shared payloads included.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len() + self.shared.iter().map(|payload| payload.len()).sum::<usize>()
    }
}

/// This shard's end of the link to one other.
#[derive(Debug, Default)]
pub(crate) struct Link {
    bytes: Vec<u8>,
    shared: Vec<Arc<[u8]>>,
    shared_bytes: u64,
    /// Bytes handed over and not yet worked off by the other side, the present batch included.
    under_way: u64,
    /// Bytes of the other's batches worked off here and not yet told.
    owed_credit: u64,
    /// Publishers that wait until less is under way.
    waiting: Vec<ConnectionKey>,
    /// Size of the last batch, the guess for the next one.
    last_len: usize,
}

/// All links of a shard, by the other's number.
#[derive(Debug)]
pub(crate) struct Links {
    place: Place,
    links: Vec<Link>,
    /// Bytes under way to one shard beyond which its publishers wait.
    limit: u64,
    /// Worked-off bytes that are reported even when nothing else is to be sent.
    credit_step: u64,
}

impl Links {
    pub(crate) fn new(place: Place, limit: u64) -> Self {
        let links = (0..place.shards).map(|_| Link::default()).collect();
        Self { place, links, limit, credit_step: (limit / 4).clamp(1, CREDIT_STEP_MAX) }
    }

    fn link(&mut self, shard: ShardId) -> Option<&mut Link> {
        debug_assert_ne!(shard, self.place.shard, "a shard has no link to itself");
        self.links.get_mut(usize::from(shard.0))
    }

    /// Appends a record for `shard`.
    #[inline]
    pub(crate) fn send(&mut self, shard: ShardId, mut record: Record<'_>) {
        let Some(link) = self.link(shard) else { return };
        let before = link.shared.len();
        if link.bytes.capacity() == 0 {
            link.bytes.reserve(link.last_len.max(256));
        }
        record.write(&mut link.bytes, &mut link.shared);
        for payload in &link.shared[before..] {
            link.shared_bytes += payload.len() as u64;
        }
    }

    /// Whether more is under way to `shard` than its limit.
    #[inline]
    pub(crate) fn is_full(&self, shard: ShardId) -> bool {
        self.links
            .get(usize::from(shard.0))
            .is_some_and(|link| link.under_way + link.bytes.len() as u64 + link.shared_bytes > self.limit)
    }

    /// Notes a publisher that waits for the link to drain.
    pub(crate) fn wait(&mut self, shard: ShardId, publisher: ConnectionKey) {
        if let Some(link) = self.link(shard) {
            link.waiting.push(publisher);
        }
    }

    /// Takes what was gathered for `shard`.
    pub(crate) fn take_batch(&mut self, shard: ShardId) -> Option<Batch> {
        let from = self.place.shard;
        if shard == from {
            return None;
        }
        let credit_step = self.credit_step;
        let link = self.link(shard)?;
        // Credit alone is not worth a wake-up of the other side until a good part of its limit is owed.
        let credit_due = link.owed_credit > 0 && (!link.bytes.is_empty() || link.owed_credit >= credit_step);
        if credit_due {
            let bytes = std::mem::take(&mut link.owed_credit);
            Record::Credit { bytes }.write(&mut link.bytes, &mut link.shared);
        }
        if link.bytes.is_empty() {
            return None;
        }
        let batch = Batch { from, bytes: std::mem::take(&mut link.bytes), shared: std::mem::take(&mut link.shared) };
        link.shared_bytes = 0;
        link.last_len = batch.bytes.len();
        link.under_way += batch.bytes_len() as u64;
        Some(batch)
    }

    /// Notes that a batch of `bytes` from `shard` is worked off.
    pub(crate) fn worked_off(&mut self, shard: ShardId, bytes: u64) {
        if let Some(link) = self.link(shard) {
            link.owed_credit += bytes;
        }
    }

    /// The other side worked off `bytes`; returns the publishers that may go on.
    pub(crate) fn credit(&mut self, shard: ShardId, bytes: u64) -> Vec<ConnectionKey> {
        let limit = self.limit;
        let Some(link) = self.link(shard) else { return Vec::new() };
        link.under_way = link.under_way.saturating_sub(bytes);
        if link.under_way <= limit / 2 { std::mem::take(&mut link.waiting) } else { Vec::new() }
    }

    /// Bytes gathered or under way on all links.
    pub(crate) fn bytes(&self) -> u64 {
        self.links.iter().map(|link| link.under_way + link.bytes.len() as u64 + link.shared_bytes).sum()
    }
}

/// Largest amount of credit that may wait for other traffic to ride on.
const CREDIT_STEP_MAX: u64 = 256 * 1024;
