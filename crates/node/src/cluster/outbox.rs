//! The send queue of one node: shards put batches in, the thread of the links takes them out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_engine::{Batch, ShardId};

use super::wire::{begin_batch, end_batch};

/// A buffer that has grown beyond this is freed when it is empty, bytes.
const KEPT_BYTES: usize = 1024 * 1024;

/// The send queue of one session.
#[derive(Debug)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    /// Bytes here and in the buffer that is being written.
    waiting: AtomicU64,
    /// Bytes of [`Self::waiting`] beyond which it is closed; a single batch may be larger.
    limit: u64,
}

#[derive(Debug, Default)]
struct Inner {
    bytes: Vec<u8>,
    taken: Taken,
    /// The session has ended, or more would have to wait than may.
    closed: bool,
    overflown: bool,
}

/// The bytes and batches taken out since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub batches: u64,
    pub messages: u64,
}

impl Outbox {
    pub(super) fn new(limit: u64) -> Self {
        Self { inner: Mutex::default(), waiting: AtomicU64::new(0), limit }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked while holding it left a frame that has no length yet; the session ends with the
        // thread.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a batch for the shard of this number over there. The thread of the links is to be woken afterwards, once
    /// for all batches of a turn, which so become one write.
    pub(crate) fn push(&self, to: u16, batch: &Batch) {
        let mut inner = self.inner();
        if inner.closed {
            return;
        }
        let length = batch.bytes_len() as u64;
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting > 0 && waiting + length > self.limit {
            *inner = Inner { closed: true, overflown: true, ..Inner::default() };
            return;
        }
        let before = inner.bytes.len();
        let ShardId(from) = batch.from;
        let at = begin_batch(from, to, &mut inner.bytes);
        batch.write_to(&mut inner.bytes);
        end_batch(at, &mut inner.bytes);
        inner.taken.batches += 1;
        inner.taken.messages += u64::from(batch.messages());
        self.waiting.fetch_add((inner.bytes.len() - before) as u64, Ordering::Relaxed);
    }

    /// Moves all bytes into an empty buffer, whose own memory stays here for the next ones. Returns an error if more
    /// bytes waited than the limit: then the session is over.
    pub(super) fn take(&self, into: &mut Vec<u8>) -> Result<Taken, Overflown> {
        let mut inner = self.inner();
        if inner.overflown {
            return Err(Overflown { limit: self.limit });
        }
        if into.capacity() > KEPT_BYTES {
            *into = Vec::new();
        }
        std::mem::swap(&mut inner.bytes, into);
        Ok(std::mem::take(&mut inner.taken))
    }

    /// Notes the number of bytes that were written.
    pub(super) fn note_written(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Counts frames other than batches that were appended to the output.
    pub(super) fn note_added(&self, bytes: usize) {
        self.waiting.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The limit, when more had to wait than may.
    pub(super) fn overflown(&self) -> Option<Overflown> {
        self.inner().overflown.then_some(Overflown { limit: self.limit })
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Maximum number of waiting bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Accepts no further bytes: the session is over.
    pub(super) fn close(&self) {
        *self.inner() = Inner { closed: true, ..Inner::default() };
    }
}

/// More had to wait for a node than may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflown {
    /// The most that may wait.
    pub limit: u64,
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Frame, MAX_FRAME_BYTES, split_frame};
    use super::*;

    fn batch(from: u16, bytes: usize) -> Batch {
        let mut written = vec![1];
        written.extend_from_slice(&from.to_le_bytes());
        written.extend_from_slice(&[0; 24 + 4]);
        written.extend_from_slice(&(bytes as u32).to_le_bytes());
        written.resize(written.len() + bytes, 0);
        written.extend_from_slice(&[0; 4]);
        Batch::read_from(&written, ShardId(from), 0).unwrap()
    }

    #[test]
    fn batches_leave_in_order_as_one_piece() {
        let outbox = Outbox::new(1000);
        outbox.push(7, &batch(2, 10));
        outbox.push(8, &batch(3, 20));
        let mut out = Vec::new();
        assert_eq!(outbox.take(&mut out), Ok(Taken { batches: 2, messages: 0 }));
        assert_eq!(outbox.waiting(), out.len() as u64);
        let (first, length) = split_frame(&out, MAX_FRAME_BYTES).unwrap().unwrap();
        let (second, _) = split_frame(&out[length..], MAX_FRAME_BYTES).unwrap().unwrap();
        assert!(matches!(first, Frame::Batch { from: 2, to: 7, .. }));
        assert!(matches!(second, Frame::Batch { from: 3, to: 8, .. }));
        outbox.note_written(out.len());
        out.clear();
        assert_eq!((outbox.take(&mut out), outbox.waiting()), (Ok(Taken::default()), 0));
    }

    #[test]
    fn an_overfull_outbox_ends_the_session_but_not_by_one_batch() {
        let outbox = Outbox::new(100);
        outbox.push(0, &batch(0, 500));
        assert!(outbox.take(&mut Vec::new()).is_ok(), "one may be larger");
        outbox.push(0, &batch(0, 1));
        assert_eq!(outbox.take(&mut Vec::new()), Err(Overflown { limit: 100 }), "and nothing goes behind it");
    }

    #[test]
    fn nothing_waits_for_a_session_that_is_over() {
        let outbox = Outbox::new(100);
        outbox.close();
        outbox.push(0, &batch(0, 1));
        let mut out = Vec::new();
        assert_eq!((outbox.take(&mut out), out.len(), outbox.waiting()), (Ok(Taken::default()), 0, 0));
    }
}
