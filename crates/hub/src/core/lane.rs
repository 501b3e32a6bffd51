//! A lane: the records that go to one sink in one order. One batch of it is under way at a time; while it fails, the
//! next ones wait behind it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::record::Record;

/// How records become batches, and what happens when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Most records of a batch.
    pub messages: usize,
    /// Bytes of records at which a batch is full.
    pub bytes: usize,
    /// Milliseconds that a record waits for others.
    pub time: u64,
    /// Milliseconds until the first retry. Each failure doubles them, and half of it is chance.
    pub retry_min: u64,
    /// Most milliseconds until a retry.
    pub retry_max: u64,
}

impl Default for Batching {
    fn default() -> Self {
        Self { messages: 500, bytes: 1 << 20, time: 10, retry_min: 500, retry_max: 30_000 }
    }
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sink keeps all of it.
    Done,
    /// The sink is away, or not able: the same batch goes again, later.
    Away(String),
    /// The sink does not take it, now or later: one of its records is to blame.
    Refused(String),
}

/// A record on its way, and the message that it was made of.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) entry: u64,
    pub(super) record: Arc<Record>,
}

/// The messages that a settled batch settles.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// The sink keeps these.
    pub(super) done: Vec<u64>,
    /// The sink will never take this one.
    pub(super) poison: Option<(Item, String)>,
    /// The batch goes again.
    pub(super) retried: bool,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) sink: usize,
    batching: Batching,
    /// With the time at which each came.
    waiting: VecDeque<(Item, u64)>,
    waiting_bytes: usize,
    /// Batches that were tried before, in order; they go first.
    again: VecDeque<Vec<Item>>,
    under_way: Option<Vec<Item>>,
    /// Whether records of the batch that is under way were dropped: a refusal may be about one of them.
    is_cut: bool,
    /// When the batch that is under way began.
    begun: u64,
    retry_at: Option<u64>,
    failures: u32,
    /// Why the last batch failed, until one succeeds.
    pub(super) error: Option<String>,
}

impl Lane {
    pub(super) fn new(sink: usize, batching: Batching) -> Self {
        Self {
            sink,
            batching,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            again: VecDeque::new(),
            under_way: None,
            is_cut: false,
            begun: 0,
            retry_at: None,
            failures: 0,
            error: None,
        }
    }

    pub(super) fn push(&mut self, now: u64, item: Item) {
        self.waiting_bytes += item.record.size();
        self.waiting.push_back((item, now));
    }

    /// Drops records of these messages. The sink still has a batch that is under way, but it does not come again with
    /// them.
    pub(super) fn forget(&mut self, gone: &BTreeSet<u64>) {
        let stays = |item: &Item| !gone.contains(&item.entry);
        self.waiting.retain(|(item, _)| stays(item));
        self.waiting_bytes = self.waiting.iter().map(|(item, _)| item.record.size()).sum();
        self.again.iter_mut().for_each(|batch| batch.retain(stays));
        self.again.retain(|batch| !batch.is_empty());
        if let Some(batch) = &mut self.under_way {
            let before = batch.len();
            batch.retain(stays);
            self.is_cut |= batch.len() < before;
        } else if self.again.is_empty() {
            (self.retry_at, self.error, self.failures) = (None, None, 0);
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Records that the sink does not have.
    pub(super) fn len(&self) -> usize {
        let tried: usize = self.again.iter().chain(&self.under_way).map(Vec::len).sum();
        self.waiting.len() + tried
    }

    /// Milliseconds since the batch that is under way began.
    pub(super) fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.begun)
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= self.batching.messages || self.waiting_bytes >= self.batching.bytes
    }

    /// When there is something to do, if nothing comes before.
    pub(super) fn deadline(&self) -> Option<u64> {
        if self.under_way.is_some() {
            return None;
        }
        if let Some(retry_at) = self.retry_at {
            return Some(retry_at);
        }
        if !self.again.is_empty() {
            return Some(0);
        }
        let (_, since) = self.waiting.front()?;
        Some(if self.is_full() { 0 } else { since.saturating_add(self.batching.time) })
    }

    /// Begins the next batch, if one is due.
    pub(super) fn begin(&mut self, now: u64) -> Option<Vec<Arc<Record>>> {
        if self.deadline()? > now {
            return None;
        }
        self.retry_at = None;
        let batch = self.again.pop_front().unwrap_or_else(|| self.collect());
        let records = batch.iter().map(|item| Arc::clone(&item.record)).collect();
        self.under_way = Some(batch);
        self.begun = now;
        Some(records)
    }

    fn collect(&mut self) -> Vec<Item> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < self.batching.messages && (batch.is_empty() || bytes < self.batching.bytes) {
            let Some((item, _)) = self.waiting.pop_front() else { break };
            let size = item.record.size();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(size);
            bytes += size;
            batch.push(item);
        }
        batch
    }

    /// The batch that is under way has come to an end. `chance` is any number.
    pub(super) fn settle(&mut self, now: u64, outcome: Outcome, chance: u64) -> Settled {
        let Some(mut batch) = self.under_way.take() else { return Settled::default() };
        let is_cut = std::mem::take(&mut self.is_cut);
        if batch.is_empty() {
            (self.error, self.failures) = (None, 0);
            return Settled::default();
        }
        match outcome {
            Outcome::Done => {
                self.failures = 0;
                self.error = None;
                Settled { done: batch.into_iter().map(|item| item.entry).collect(), ..Settled::default() }
            }
            Outcome::Away(why) => {
                self.again.push_front(batch);
                let pause = self.batching.retry_min.max(1).saturating_mul(1 << self.failures.min(20));
                let half = pause.min(self.batching.retry_max.max(1)) / 2;
                self.retry_at = Some(now.saturating_add(half + chance % (half + 1)).max(now + 1));
                self.failures = self.failures.saturating_add(1);
                self.error = Some(why);
                Settled { retried: true, ..Settled::default() }
            }
            Outcome::Refused(_) if is_cut => {
                self.again.push_front(batch);
                Settled { retried: true, ..Settled::default() }
            }
            Outcome::Refused(_) if batch.len() > 1 => {
                // Halves of halves lead to the one that is to blame, in the order of all.
                let rest = batch.split_off(batch.len() / 2);
                self.again.push_front(rest);
                self.again.push_front(batch);
                Settled { retried: true, ..Settled::default() }
            }
            Outcome::Refused(why) => {
                self.failures = 0;
                self.error = None;
                Settled { poison: batch.pop().map(|item| (item, why)), ..Settled::default() }
            }
        }
    }
}
