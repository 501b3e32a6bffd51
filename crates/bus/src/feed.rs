//! Records that are read ahead of a reader.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{BusError, Position, Record, Settings, Wake};

/// Records taken from a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// In order, each once.
    pub records: Vec<Record>,
    /// The position to read on at: everything below was given, by this call or an earlier one. It also passes positions
    /// that have no record for the reader, such as claims.
    pub next: Position,
}

/// Between a backend, which fills it, and a reader, which empties it.
pub(crate) struct Feed {
    wake: Wake,
    /// Called when there is room again, or the reader has gone.
    freed: Box<dyn Fn() + Send + Sync>,
    max: usize,
    max_bytes: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    records: VecDeque<Record>,
    bytes: usize,
    /// Everything below was put in.
    next: Position,
    error: Option<BusError>,
    gone: bool,
}

impl Feed {
    pub(crate) fn new(
        from: Position,
        wake: Wake,
        settings: &Settings,
        freed: Box<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        let inner = Inner { records: VecDeque::new(), bytes: 0, next: from, error: None, gone: false };
        let (max, max_bytes) = (settings.max_ahead, settings.max_ahead_bytes);
        Arc::new(Self { wake, freed, max, max_bytes, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record, unless it was added before. The caller asks [`Self::has_room`] before it reads
    /// more, and calls [`Self::wake`] when it holds no lock any more.
    pub(crate) fn push(&self, record: Record) {
        let mut inner = self.inner();
        if record.position >= inner.next {
            inner.bytes += record.size();
            inner.next = record.position.next();
            inner.records.push_back(record);
        }
    }

    /// Says that nothing for the reader is below a position.
    pub(crate) fn pass(&self, next: Position) {
        let mut inner = self.inner();
        inner.next = inner.next.max(next);
    }

    /// Ends the reading with an error, after the records before it.
    pub(crate) fn fail(&self, error: BusError) {
        self.inner().error.get_or_insert(error);
    }

    /// Tells the reader that there may be something to take.
    pub(crate) fn wake(&self) {
        (self.wake)();
    }

    /// The position at which the backend reads on.
    pub(crate) fn next(&self) -> Position {
        self.inner().next
    }

    pub(crate) fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Bytes for which there is room; 0 where there are as many records as there may be.
    pub(crate) fn room(&self) -> usize {
        let inner = self.inner();
        if inner.records.len() < self.max { self.max_bytes.saturating_sub(inner.bytes) } else { 0 }
    }

    /// Whether the reader has gone or failed.
    pub(crate) fn has_ended(&self) -> bool {
        let inner = self.inner();
        inner.gone || inner.error.is_some()
    }
}

/// Reads one partition from a position on, to the end and on as records come. Dropping it ends it.
pub struct Reader(Arc<Feed>);

impl Reader {
    pub(crate) fn new(feed: Arc<Feed>) -> Self {
        Self(feed)
    }

    /// Takes the next confirmed records, at most `max`. The list is empty while no record is confirmed.
    ///
    /// # Errors
    /// [`BusError::Trimmed`] when the next records are gone, and an error when the bus refuses to be read. A reader
    /// does not end because the bus is away: then no records come until it is back.
    pub fn take(&mut self, max: usize) -> Result<Taken, BusError> {
        self.take_within(max, usize::MAX)
    }

    /// The same, and not more bytes unless a single record has more.
    pub(crate) fn take_within(&mut self, max: usize, max_bytes: usize) -> Result<Taken, BusError> {
        let (taken, freed) = {
            let mut inner = self.0.inner();
            if inner.records.is_empty()
                && let Some(error) = &inner.error
            {
                return Err(error.clone());
            }
            let mut bytes = 0_usize;
            let fits = |record: &&Record| {
                let is_first = bytes == 0;
                bytes = bytes.saturating_add(record.size().max(1));
                is_first || bytes <= max_bytes
            };
            let count = inner.records.iter().take(max).take_while(fits).count();
            let records: Vec<Record> = inner.records.drain(..count).collect();
            inner.bytes -= records.iter().map(Record::size).sum::<usize>();
            let next = inner.records.front().map_or(inner.next, |record| record.position);
            (Taken { records, next }, count > 0)
        };
        if freed {
            (self.0.freed)();
        }
        Ok(taken)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.inner().gone = true;
        (self.0.freed)();
    }
}
