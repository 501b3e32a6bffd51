//! A lane: the records that go to one sink in one order. One batch of it is under way at a time; while it fails, the
//! next ones wait behind it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Batch, News};
use crate::record::Record;

/// Retries of a batch for which a sink has reached a limit. Then one of its records is to blame.
pub(super) const MAX_LIMITED_RETRIES: u32 = 8;

/// Milliseconds after which another reason is reported, while a sink takes no batches.
const REPORT_EVERY: u64 = 60_000;

/// How records become batches, and what happens when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Most records of a batch.
    pub messages: usize,
    /// Bytes of records at which a batch is full.
    pub bytes: usize,
    /// Milliseconds that a record waits for others at most. Usually they count from the begin of the batch before, so a record
    /// goes at once after a rest.
    pub time: u64,
    /// Whether they count from the first record of a batch: for sinks that make an object of each batch.
    pub gathers: bool,
    /// Milliseconds until the first retry. Each failure doubles them, and half of it is chance.
    pub retry_min: u64,
    /// Most milliseconds until a retry.
    pub retry_max: u64,
}

impl Default for Batching {
    fn default() -> Self {
        Self { messages: 500, bytes: 1 << 20, time: 5, gathers: false, retry_min: 500, retry_max: 30_000 }
    }
}

/// The outcome of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The sink keeps all of it.
    Done,
    /// The sink is away, or not able: the same batch goes again, later.
    Away(String),
    /// The sink has reached a limit: the same batch goes again a bounded number of times, and is refused then.
    Limited(String),
    /// The sink does not take it, now or later: one of its records is to blame.
    Refused(String),
}

/// A record on its way, and the message that it was made of.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) entry: u64,
    pub(super) record: Arc<Record>,
}

/// A record that waits for a batch.
#[derive(Debug)]
struct WaitingRecord {
    item: Item,
    size: usize,
    /// When it came.
    since: u64,
}

/// Records that go to the sink together, and the messages that they were made of. The thread of the sink shares the
/// records.
#[derive(Debug, Default)]
struct Tried {
    entries: Vec<u64>,
    records: Batch,
}

impl Tried {
    fn of(items: impl IntoIterator<Item = Item>) -> Self {
        let (entries, records): (Vec<_>, Vec<_>) = items.into_iter().map(|item| (item.entry, item.record)).unzip();
        Self { entries, records: Batch::new(records) }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn items(&self) -> impl Iterator<Item = Item> {
        let item = |(entry, record): (&u64, &Arc<Record>)| Item { entry: *entry, record: Arc::clone(record) };
        self.entries.iter().zip(self.records.iter()).map(item)
    }

    /// Leaves records of these messages out.
    fn forget(&mut self, gone: &BTreeSet<u64>) {
        if self.entries.iter().any(|entry| gone.contains(entry)) {
            *self = Self::of(self.items().filter(|item| !gone.contains(&item.entry)));
        }
    }

    /// Its first and its second half.
    fn halves(&self) -> [Self; 2] {
        let half = self.len() / 2;
        [Self::of(self.items().take(half)), Self::of(self.items().skip(half))]
    }
}

/// The messages that a settled batch settles.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// The sink keeps these.
    pub(super) done: Vec<u64>,
    /// Their records.
    pub(super) records: Batch,
    /// The sink will never take this one.
    pub(super) poison: Option<(Item, String)>,
    /// The batch goes again.
    pub(super) retried: bool,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) sink: usize,
    batching: Batching,
    waiting: VecDeque<WaitingRecord>,
    waiting_bytes: usize,
    /// Batches that were tried before, in order; they go first.
    again: VecDeque<Tried>,
    under_way: Option<Tried>,
    /// Whether records of the batch that is under way were dropped: a refusal may be about one of them.
    is_cut: bool,
    /// When the batch that is under way began.
    begun: u64,
    /// When the next batch may begin that is not full.
    paced_until: u64,
    retry_at: Option<u64>,
    failures: u32,
    /// Retries for a limit of the sink, until all records of the batch have ended.
    limited: u32,
    /// Why the last batch failed, until one succeeds.
    pub(super) error: Option<String>,
    /// The reason that was reported last, and when.
    reported: Option<(String, u64)>,
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
            paced_until: 0,
            retry_at: None,
            failures: 0,
            limited: 0,
            error: None,
            reported: None,
        }
    }

    pub(super) fn push(&mut self, now: u64, item: Item) {
        let size = item.record.size();
        self.waiting_bytes += size;
        self.waiting.push_back(WaitingRecord { item, size, since: now });
    }

    /// Drops records of these messages. The sink still has a batch that is under way, but it does not come again with
    /// them.
    pub(super) fn forget(&mut self, gone: &BTreeSet<u64>) {
        self.waiting.retain(|waiting| !gone.contains(&waiting.item.entry));
        self.waiting_bytes = self.waiting.iter().map(|waiting| waiting.size).sum();
        self.again.iter_mut().for_each(|batch| batch.forget(gone));
        self.again.retain(|batch| batch.len() > 0);
        if let Some(batch) = &mut self.under_way {
            let before = batch.len();
            batch.forget(gone);
            self.is_cut |= batch.len() < before;
        } else if self.again.is_empty() {
            self.retry_at = None;
            self.succeed();
        }
    }

    /// Takes out the records of messages that the broker took before `oldest` (Unix milliseconds). A batch that is under
    /// way keeps its own. Messages of an archive are as old as they may be.
    pub(super) fn take_older(&mut self, oldest: u64) -> Vec<Item> {
        let is_older = |record: &Record| record.message.timestamp < oldest && !record.message.archived;
        let mut taken = Vec::new();
        for batch in self.again.iter_mut().filter(|batch| batch.records.iter().any(|record| is_older(record))) {
            let (older, rest): (Vec<_>, Vec<_>) = batch.items().partition(|item| is_older(&item.record));
            taken.extend(older);
            *batch = Tried::of(rest);
        }
        self.again.retain(|batch| batch.len() > 0);
        self.waiting.retain(|waiting| {
            let goes = is_older(&waiting.item.record);
            if goes {
                taken.push(waiting.item.clone());
            }
            !goes
        });
        self.waiting_bytes = self.waiting.iter().map(|waiting| waiting.size).sum();
        taken
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Records that the sink does not have.
    pub(super) fn len(&self) -> usize {
        let tried: usize = self.again.iter().chain(&self.under_way).map(Tried::len).sum();
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
        if self.under_way.is_some() || (self.again.is_empty() && self.waiting.is_empty()) {
            return None;
        }
        if let Some(retry_at) = self.retry_at {
            return Some(retry_at);
        }
        if !self.again.is_empty() {
            return Some(0);
        }
        let first = self.waiting.front()?;
        let latest = first.since.saturating_add(self.batching.time);
        Some(match (self.is_full(), self.batching.gathers) {
            (true, _) => 0,
            (false, true) => latest,
            (false, false) => self.paced_until.clamp(first.since, latest),
        })
    }

    /// Begins the next batch, if one is due.
    pub(super) fn begin(&mut self, now: u64) -> Option<Batch> {
        if self.deadline()? > now {
            return None;
        }
        self.retry_at = None;
        let batch = self.again.pop_front().unwrap_or_else(|| self.collect());
        let records = Batch::clone(&batch.records);
        self.under_way = Some(batch);
        self.begun = now;
        self.paced_until = now.saturating_add(self.batching.time);
        Some(records)
    }

    fn collect(&mut self) -> Tried {
        let (mut count, mut bytes) = (0, 0);
        for waiting in self.waiting.iter().take(self.batching.messages) {
            if count > 0 && bytes >= self.batching.bytes {
                break;
            }
            (count, bytes) = (count + 1, bytes + waiting.size);
        }
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        Tried::of(self.waiting.drain(..count).map(|waiting| waiting.item))
    }

    /// The news since the last call: the sink takes no batches any more, or for another reason, or takes them again.
    pub(super) fn news(&mut self, now: u64, sink: usize) -> Option<News> {
        let is_due = match (&self.reported, &self.error) {
            (None, error) => error.is_some(),
            (Some(_), None) => true,
            (Some((reported, at)), Some(why)) => reported != why && now.saturating_sub(*at) >= REPORT_EVERY,
        };
        if !is_due {
            return None;
        }
        self.reported = self.error.clone().map(|why| (why, now));
        Some(self.error.clone().map_or(News::Back { sink }, |why| News::Away { sink, why }))
    }

    /// A batch has come to its end, or another process has taken it over.
    fn succeed(&mut self) {
        (self.error, self.failures) = (None, 0);
        if self.again.is_empty() {
            self.limited = 0;
        }
    }

    /// The batch goes again, later.
    fn retry(&mut self, batch: Tried, why: String, now: u64, chance: u64) -> Settled {
        self.again.push_front(batch);
        let pause = self.batching.retry_min.max(1).saturating_mul(1 << self.failures.min(20));
        let half = pause.min(self.batching.retry_max.max(1)) / 2;
        self.retry_at = Some(now.saturating_add(half + chance % (half + 1)).max(now + 1));
        self.failures = self.failures.saturating_add(1);
        self.error = Some(why);
        Settled { retried: true, ..Settled::default() }
    }

    /// The batch that is under way has come to an end. `chance` is any number.
    pub(super) fn settle(&mut self, now: u64, outcome: Outcome, chance: u64) -> Settled {
        let Some(batch) = self.under_way.take() else { return Settled::default() };
        let is_cut = std::mem::take(&mut self.is_cut);
        if batch.len() == 0 {
            self.succeed();
            return Settled::default();
        }
        match outcome {
            Outcome::Done => {
                self.succeed();
                Settled { done: batch.entries, records: batch.records, ..Settled::default() }
            }
            Outcome::Away(why) => self.retry(batch, why, now, chance),
            Outcome::Limited(why) if self.limited < MAX_LIMITED_RETRIES => {
                self.limited += 1;
                self.retry(batch, why, now, chance)
            }
            Outcome::Limited(_) | Outcome::Refused(_) if is_cut => {
                self.again.push_front(batch);
                Settled { retried: true, ..Settled::default() }
            }
            Outcome::Limited(_) | Outcome::Refused(_) if batch.len() > 1 => {
                // Halves of halves lead to the invalid record, in the order of all.
                let [first, rest] = batch.halves();
                self.again.push_front(rest);
                self.again.push_front(first);
                Settled { retried: true, ..Settled::default() }
            }
            Outcome::Limited(why) | Outcome::Refused(why) => {
                self.succeed();
                Settled { poison: batch.items().next().map(|item| (item, why)), ..Settled::default() }
            }
        }
    }
}
