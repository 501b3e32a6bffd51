//! The send queue: records on their way to the bus, and how far they are confirmed.
//!
//! Locks are taken in this order: the sending order (`carrier`), the queue, the files.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_bus::{BusError, Position};

use crate::Lost;
use crate::files::{FileId, Files, Mark};

/// Size of a record on the bus beside its content, bytes: subject, headers and the servers' own data.
pub(crate) const RECORD_OVERHEAD: u64 = 512;

/// A record that is not confirmed.
pub(crate) struct Sent {
    pub(crate) sequence: u64,
    /// Bytes of the log before it.
    pub(crate) offset: u64,
    pub(crate) payload: Bytes,
    /// The file that has bytes in it.
    pub(crate) file: Option<FileId>,
    /// The position up to which the log can be trimmed once this is confirmed: it lists all files.
    pub(crate) trim: Option<Mark>,
    pub(crate) position: Option<Position>,
}

impl Sent {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.payload.len() as u64 + RECORD_OVERHEAD
    }
}

/// A list of all files that is confirmed.
pub(crate) struct Indexed {
    pub(crate) sequence: u64,
    pub(crate) position: Position,
    pub(crate) record: Bytes,
    pub(crate) trim: Mark,
}

#[derive(Default)]
pub(crate) struct State {
    /// In the order of their sequences, which are consecutive.
    pub(crate) queue: VecDeque<Sent>,
    /// The sequence up to which all is confirmed.
    pub(crate) confirmed: u64,
    /// While a lost log is filled again, records below this sequence do not count as confirmed. It is the sequence of
    /// the list of all files.
    pub(crate) confirms_from: u64,
    /// Whether a lost log is being filled again.
    pub(crate) is_refilling: bool,
    /// When the bus last got a record that is still unconfirmed, or confirmed one since.
    progress: Option<Instant>,
    /// The position of the last confirmed record, and the bytes of the log up to its end.
    pub(crate) mark: Mark,
    /// Bytes of the log with all that was sent.
    pub(crate) sent: u64,
    /// Bytes of the log that were trimmed.
    pub(crate) trimmed: u64,
    /// The position of a trim to be repeated, since it has failed.
    pub(crate) untrimmed: Option<Mark>,
    /// Bytes of each file that are not confirmed.
    unconfirmed: HashMap<FileId, usize>,
    /// Appends that the bus has not answered.
    pub(crate) outstanding: usize,
    /// The first error of the bus that is not repaired yet.
    pub(crate) trouble: Option<BusError>,
    pub(crate) lost: Option<Lost>,
    /// The sequence of the last list of files that the working copy knows.
    pub(crate) noted: u64,
    /// The latest list of files that was not processed yet.
    pub(crate) indexed: Option<Indexed>,
}

impl State {
    /// With all up to a sequence confirmed, which ends at a mark, of a log that is trimmed up to an offset.
    pub(crate) fn at(confirmed: u64, mark: Mark, trimmed: u64) -> Self {
        Self { confirmed, mark, sent: mark.offset, trimmed, ..Self::default() }
    }

    pub(crate) fn unconfirmed(&self, file: FileId) -> usize {
        self.unconfirmed.get(&file).copied().unwrap_or(0)
    }

    /// For how long the bus has confirmed no record although some are pending.
    pub(crate) fn stalled(&self) -> Duration {
        self.progress.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// The log is lost, and begins again behind a mark. Unconfirmed content is in the files of the working copy, and is
    /// sent with them.
    pub(crate) fn begin_again(&mut self, mark: Mark) {
        self.queue.clear();
        self.unconfirmed.clear();
        (self.indexed, self.trouble, self.untrimmed) = (None, None, None);
        (self.mark, self.sent, self.trimmed) = (mark, mark.offset, mark.offset);
        (self.is_refilling, self.confirms_from) = (true, u64::MAX);
    }

    /// Bytes that the log takes.
    pub(crate) fn used(&self) -> u64 {
        self.sent.saturating_sub(self.trimmed)
    }

    pub(crate) fn push(&mut self, sent: Sent) {
        self.sent = sent.end();
        if let Some(file) = sent.file {
            *self.unconfirmed.entry(file).or_default() += sent.payload.len();
        }
        self.progress.get_or_insert_with(Instant::now);
        self.queue.push_back(sent);
    }

    /// Notes where a record is.
    pub(crate) fn stored(&mut self, sequence: u64, position: Position) {
        let front = self.queue.front().map_or(sequence, |sent| sent.sequence);
        let index = sequence.checked_sub(front).and_then(|index| usize::try_from(index).ok());
        if let Some(sent) = index.and_then(|index| self.queue.get_mut(index)) {
            sent.position = Some(position);
        }
    }
}

/// The line.
#[derive(Default)]
pub(crate) struct SendQueue {
    state: Mutex<State>,
    /// The state has changed.
    pub(crate) changed: Condvar,
    files: Mutex<Files>,
}

impl SendQueue {
    pub(crate) fn new(state: State, files: Files) -> Self {
        Self { state: Mutex::new(state), changed: Condvar::new(), files: Mutex::new(files) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bus has answered an append.
    pub(crate) fn answered(&self, sequence: u64, outcome: Result<Position, BusError>) {
        let mut state = self.state();
        state.outstanding -= 1;
        match outcome {
            Ok(position) => {
                state.stored(sequence, position);
                self.advance(&mut state);
            }
            Err(error) => drop(state.trouble.get_or_insert(error)),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The bus has answered a trim. One that has failed is repeated, unless the log was trimmed further meanwhile.
    pub(crate) fn trimmed(&self, to: Mark, outcome: Result<(), BusError>) {
        let mut state = self.state();
        if let Err(error) = outcome {
            tracing::debug!(%error, "cannot trim the log; retrying");
            state.untrimmed = state.untrimmed.max(Some(to));
        } else {
            state.trimmed = state.trimmed.max(to.offset);
        }
        if state.untrimmed.is_some_and(|to| to.offset <= state.trimmed) {
            state.untrimmed = None;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Removes confirmed records from the queue.
    pub(crate) fn advance(&self, state: &mut State) {
        let mut files = self.files();
        while let Some(position) = state.queue.front().and_then(|sent| sent.position) {
            let Some(sent) = state.queue.pop_front() else { return };
            if sent.sequence >= state.confirms_from {
                state.confirmed = sent.sequence;
            }
            state.progress = (!state.queue.is_empty()).then(Instant::now);
            state.mark = Mark { position, offset: sent.end() };
            if let Some(file) = sent.file {
                if let Some(bytes) = state.unconfirmed.get_mut(&file) {
                    *bytes -= sent.payload.len();
                    if *bytes == 0 {
                        state.unconfirmed.remove(&file);
                    }
                }
                if let Some(file) = files.get_mut(file) {
                    file.first.get_or_insert(Mark { position, offset: sent.offset });
                }
            }
            if let Some(trim) = sent.trim {
                state.indexed = Some(Indexed { sequence: sent.sequence, position, record: sent.payload, trim });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trim_that_fails_is_repeated_unless_one_behind_it_succeeds() {
        let queue = SendQueue::default();
        let state = || {
            let state = queue.state();
            (state.trimmed, state.untrimmed)
        };
        let mark = |offset| Mark { position: Position(offset / 100), offset };
        queue.trimmed(mark(700), Err(BusError::Stopped));
        assert_eq!(state(), (0, Some(mark(700))));
        queue.trimmed(mark(900), Err(BusError::Stopped));
        queue.trimmed(mark(700), Ok(()));
        assert_eq!(state(), (700, Some(mark(900))));
        queue.trimmed(mark(900), Ok(()));
        queue.trimmed(mark(700), Err(BusError::Stopped));
        assert_eq!(state(), (900, None));
    }
}
