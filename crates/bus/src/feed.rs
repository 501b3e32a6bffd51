//! What a backend has read ahead for a reading.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::reading::ReadingSource;
use crate::{BusError, Position, Record, Settings, Taken, Wake};

/// Between the thread of a backend, which fills it, and a reading, which empties it.
pub(crate) struct Feed {
    wake: Wake,
    /// Called when there is room again, or the reading has ended.
    room: Box<dyn Fn() + Send + Sync>,
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
    ended: bool,
}

impl Feed {
    pub(crate) fn new(from: Position, wake: Wake, settings: &Settings, room: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        let inner = Inner { records: VecDeque::new(), bytes: 0, next: from, error: None, ended: false };
        let (max, max_bytes) = (settings.max_ahead, settings.max_ahead_bytes);
        Arc::new(Self { wake, room, max, max_bytes, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a record in. The caller asks [`Self::has_room`] before it reads more.
    pub(crate) fn push(&self, record: Record) {
        {
            let mut inner = self.inner();
            if inner.ended || record.position < inner.next {
                return;
            }
            inner.bytes += record.size();
            inner.next = record.position.next();
            inner.records.push_back(record);
        }
        (self.wake)();
    }

    /// Says that nothing for the reader is below a position.
    pub(crate) fn pass(&self, next: Position) {
        let mut inner = self.inner();
        if next > inner.next {
            inner.next = next;
            drop(inner);
            (self.wake)();
        }
    }

    /// Ends the reading with an error, after what was put in.
    pub(crate) fn fail(&self, error: BusError) {
        self.inner().error.get_or_insert(error);
        (self.wake)();
    }

    /// Where the backend reads on.
    pub(crate) fn next(&self) -> Position {
        self.inner().next
    }

    pub(crate) fn has_room(&self) -> bool {
        let inner = self.inner();
        inner.records.len() < self.max && inner.bytes < self.max_bytes
    }

    /// Whether nobody reads any more.
    pub(crate) fn has_ended(&self) -> bool {
        let inner = self.inner();
        inner.ended || inner.error.is_some()
    }
}

/// The reader's end of a feed.
pub(crate) struct FeedSource(pub(crate) Arc<Feed>);

impl ReadingSource for FeedSource {
    fn take(&mut self, max: usize) -> Result<Taken, BusError> {
        let taken = {
            let mut inner = self.0.inner();
            if inner.records.is_empty()
                && let Some(error) = &inner.error
            {
                return Err(error.clone());
            }
            let count = max.min(inner.records.len());
            let records: Vec<Record> = inner.records.drain(..count).collect();
            inner.bytes -= records.iter().map(Record::size).sum::<usize>();
            let next = inner.records.front().map_or(inner.next, |record| record.position);
            Taken { records, next }
        };
        if !taken.records.is_empty() {
            (self.0.room)();
        }
        Ok(taken)
    }
}

impl Drop for FeedSource {
    fn drop(&mut self) {
        self.0.inner().ended = true;
        (self.0.room)();
    }
}
