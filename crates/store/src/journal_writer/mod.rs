//! Writes batches into the journal, a group at a time. Uses no thread, and no clock for its decisions.

mod next_file;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::catalog::{Catalog, Shared};
use crate::commits::Commits;
use crate::disk::is_full;
use crate::error::write_remedy;
use crate::journal::frame::{self, FRAME_HEADER};
use crate::journal::segment::{FIRST_FRAME, Segment};
use crate::{Durability, OpenError, State, pace};

/// Most bytes of one group; a single larger batch is a group of its own.
const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that may wait for a sync when the durability is relaxed.
const UNSYNCED_BYTES: usize = 16 * 1024 * 1024;
/// Bytes written after which the free space is asked for again.
const MEASURE_BYTES: u64 = 4 * 1024 * 1024;
/// A group's buffer that has grown beyond this is given back.
const KEPT_BUFFER_BYTES: usize = 8 * 1024 * 1024;
/// Files of the journal above which a merge is wanted, whatever their size.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// A batch on its way into the journal.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) writer: u16,
    pub(crate) sequence: u64,
    pub(crate) operations: u64,
    pub(crate) payload: Vec<u8>,
    /// Something waits for its commit.
    pub(crate) is_awaited: bool,
}

impl Batch {
    /// The bytes that it counts for while it is pending.
    pub(crate) fn weight(&self) -> u64 {
        (self.payload.len() + FRAME_HEADER) as u64
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No batch was pending.
    Idle,
    /// A group was committed; there may be more.
    Done,
    /// The disk refused; the same is tried again when the step is called again, unless the store is fenced.
    Retry,
}

/// The file that is being written.
struct Active {
    segment: Arc<Segment>,
    /// The position of the first byte that is not synced.
    position: u64,
    /// A write or sync failed, so the content on the disk is unknown. No more frames are written to this file.
    broken: bool,
}

/// Writes batches to the disk as frames.
pub(crate) struct JournalWriter {
    shared: Arc<Shared>,
    active: Option<Active>,
    /// A file that is ready but for the manifest, which could not be saved, and the number behind its last frame.
    prepared: Option<(Arc<Segment>, u64)>,
    /// The number of the next frame.
    next: u64,
    /// All frames below are synced.
    durable: u64,
    pending: VecDeque<Batch>,
    /// Something waits for the commit of a pending batch.
    is_awaited: bool,
    /// The bytes that the pending batches count for.
    pending_weight: u64,
    /// Frames from `durable` on.
    buffer: Vec<u8>,
    /// How much of the buffer is written.
    written: usize,
    /// The commits to report for the group: the highest sequence of each writer.
    marks: Vec<(u16, u64)>,
    group: Group,
    since_measured: u64,
}

/// The bytes and operations of the current group.
#[derive(Debug, Default)]
struct Group {
    batches: u64,
    operations: u64,
    weight: u64,
}

impl JournalWriter {
    /// Continues at a frame number. `buffer` holds the frames from `durable` on, which are written again.
    pub(crate) fn new(shared: Arc<Shared>, durable: u64, next: u64, buffer: Vec<u8>) -> Self {
        Self {
            shared,
            active: None,
            prepared: None,
            next,
            durable,
            pending: VecDeque::new(),
            is_awaited: false,
            pending_weight: 0,
            buffer,
            written: 0,
            marks: Vec::new(),
            group: Group::default(),
            since_measured: 0,
        }
    }

    /// Takes a batch; the next steps write it.
    pub(crate) fn take(&mut self, batch: Batch) {
        self.pending_weight += batch.weight();
        self.is_awaited |= batch.is_awaited;
        self.pending.push_back(batch);
    }

    /// Whether nothing waits for the commit of the pending batches, and they are no group yet. A group whose write has
    /// failed is tried again without that.
    pub(crate) fn may_wait(&self) -> bool {
        let is_begun = self.written < self.buffer.len() || !self.marks.is_empty();
        !self.pending.is_empty() && !self.is_awaited && !is_begun && !self.has_group()
    }

    /// Whether as much waits as a group may have.
    pub(crate) fn has_group(&self) -> bool {
        self.pending_weight >= GROUP_BYTES as u64
    }

    /// Whether batches wait for a step.
    pub(crate) fn has_work(&self) -> bool {
        !self.pending.is_empty() || self.written < self.buffer.len() || !self.marks.is_empty()
    }

    /// Whether written frames wait for a sync.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.written > 0
    }

    /// Writes and commits a group of pending batches.
    pub(crate) fn step(&mut self, commits: &mut dyn Commits) -> Step {
        if !self.has_work() {
            return Step::Idle;
        }
        match self.at_disk(Self::commit) {
            Ok(()) => {
                self.tell(commits);
                Step::Done
            }
            Err(()) => Step::Retry,
        }
    }

    /// Syncs the written frames, for a relaxed durability.
    pub(crate) fn sync(&mut self) -> Step {
        if !self.is_unsynced() {
            return Step::Idle;
        }
        match self.at_disk(Self::sync_written) {
            Ok(()) => Step::Done,
            Err(()) => Step::Retry,
        }
    }

    /// Has the disk do something, and shows other threads for how long.
    fn at_disk(&mut self, work: fn(&mut Self) -> Result<(), ()>) -> Result<(), ()> {
        self.shared.status.begin_disk_work();
        let outcome = work(self);
        self.shared.status.end_disk_work();
        outcome
    }

    /// Closes the current file and requests a merge of all closed files, so that the next start has little to replay.
    /// For an idle store.
    pub(crate) fn checkpoint(&mut self) -> Step {
        if self.has_work() || self.sync() == Step::Retry {
            return Step::Retry;
        }
        let holds = self.active.as_ref().is_some_and(|active| active.position > FIRST_FRAME);
        if holds && let Err(error) = self.begin_segment() {
            // No caller waits for it, so it does not make the store full or failing.
            tracing::warn!(%error, "cannot create a journal file, which the merge needs");
            return Step::Retry;
        }
        self.shared.work.ask(|wanted| wanted.merge = true);
        Step::Done
    }

    /// Requests a merge of all written batches, if there are any, to free the space of dead entries. Returns whether it
    /// did.
    pub(crate) fn make_room(&mut self) -> bool {
        let holds = self.active.as_ref().is_some_and(|active| active.position > FIRST_FRAME) || self.written > 0;
        // After a failed write the file stays open: another file would need space, too.
        let may_close = self.written == self.buffer.len() && (self.written == 0 || self.sync_written().is_ok());
        if holds
            && may_close
            && let Err(error) = self.begin_segment()
        {
            tracing::warn!(%error, "cannot create a journal file, which the merge that frees space needs");
        }
        let is_wanted = self.shared.catalog().closed_bytes() > 0;
        if is_wanted {
            self.shared.work.ask(|wanted| wanted.merge = true);
        }
        is_wanted
    }

    /// Begins the first file after the store was opened, and writes the frames into it that were perhaps not synced
    /// before.
    pub(crate) fn begin(&mut self) -> Result<(), OpenError> {
        self.begin_segment()
    }

    /// Marks the end of the journal, so that damage before it is not taken for a torn end.
    pub(crate) fn end(&mut self) -> Step {
        if self.has_work() || self.sync() == Step::Retry {
            return Step::Retry;
        }
        let Some(active) = &self.active else {
            return Step::Idle;
        };
        let begin = self.buffer.len();
        frame::append(&mut self.buffer, self.next, &[]);
        frame::seal(&mut self.buffer[begin..], active.segment.salt, self.durable);
        self.next += 1;
        let written = self.write_buffer();
        if written.is_ok() && self.sync_written().is_ok() { Step::Done } else { Step::Retry }
    }

    fn commit(&mut self) -> Result<(), ()> {
        if self.shared.status.is_fenced() {
            return Err(());
        }
        let is_broken = self.active.as_ref().is_some_and(|active| active.broken);
        if is_broken && !self.buffer.is_empty() {
            // Batches written to this file are written to another one, and synced there.
            self.replace_segment()?;
        }
        if self.written == self.buffer.len() {
            if self.written >= UNSYNCED_BYTES {
                self.sync_written()?;
            }
            self.prepare_group()?;
        }
        if self.written < self.buffer.len() {
            self.write_buffer()?;
            if self.shared.settings.durability == Durability::Commit {
                self.sync_written()?;
            }
        }
        if let Some(active) = &self.active {
            active.segment.set_end(active.position + self.written as u64);
        }
        Ok(())
    }

    /// Makes frames of the batches that wait, as many as a group may have.
    fn prepare_group(&mut self) -> Result<(), ()> {
        let (mut bytes, mut batches) = (0, 0);
        for batch in &self.pending {
            let size = if batch.payload.is_empty() { 0 } else { FRAME_HEADER + batch.payload.len() };
            if bytes > 0 && bytes + size > GROUP_BYTES {
                break;
            }
            bytes += size;
            batches += 1;
        }
        if bytes > 0 {
            self.check_limit(bytes as u64)?;
            let end = self.active.as_ref().map(|active| active.position + (self.written + bytes) as u64);
            // A manifest may name the prepared file already. Frames of the current one from here on are then invalid.
            let broken = self.active.as_ref().is_none_or(|active| active.broken) || self.prepared.is_some();
            let empty = self.active.as_ref().is_some_and(|active| active.position == FIRST_FRAME) && self.written == 0;
            let too_long = end.is_some_and(|end| end > self.shared.settings.segment_bytes) && !empty;
            if too_long && !broken && self.written > 0 {
                self.sync_written()?;
            }
            if too_long || broken {
                self.replace_segment()?;
            }
        }
        if self.buffer.try_reserve(bytes).is_err() {
            self.note_state(State::Failing, format!("no memory for a group of {bytes} bytes"));
            return Err(());
        }
        let begin = self.buffer.len();
        for batch in self.pending.drain(..batches) {
            self.group.batches += 1;
            self.group.operations += batch.operations;
            self.group.weight += batch.weight();
            self.pending_weight -= batch.weight();
            match self.marks.iter_mut().find(|(writer, _)| *writer == batch.writer) {
                Some((_, sequence)) => *sequence = batch.sequence,
                None => self.marks.push((batch.writer, batch.sequence)),
            }
            if !batch.payload.is_empty() {
                frame::append(&mut self.buffer, self.next, &batch.payload);
                self.next += 1;
            }
        }
        // The rest of a larger number of batches is a group at once.
        self.is_awaited &= !self.pending.is_empty();
        if let (Some(active), Some(frames)) = (&self.active, self.buffer.get_mut(begin..)) {
            frame::seal(frames, active.segment.salt, self.durable);
        }
        Ok(())
    }

    /// Beyond its limit the store still accepts deletes, until the reserve is used up, too.
    fn check_limit(&mut self, more: u64) -> Result<(), ()> {
        let settings = &self.shared.settings;
        if settings.max_bytes == 0 {
            return Ok(());
        }
        let limit = settings.max_bytes.saturating_add(settings.min_free_bytes);
        let bytes = self.shared.status.store_bytes() + more;
        if bytes <= limit {
            return Ok(());
        }
        self.shared.status.note_error(format!("{bytes} bytes would be more than `max_bytes` and its reserve, {limit}"));
        self.set_state(State::Full);
        // Only a merge gives room, and it takes closed files only.
        let is_empty = self.active.as_ref().is_none_or(|active| active.position == FIRST_FRAME);
        if self.shared.catalog().closed_bytes() == 0 && !is_empty && (self.written == 0 || self.sync_written().is_ok())
        {
            let _ = self.replace_segment();
        }
        self.shared.work.ask(|wanted| wanted.merge = true);
        Err(())
    }

    fn write_buffer(&mut self) -> Result<(), ()> {
        let Some(active) = &mut self.active else {
            return Err(());
        };
        let unwritten = self.buffer.get(self.written..).unwrap_or_default();
        let place = active.position + self.written as u64;
        let mut outcome = active.segment.file.write_at(unwritten, place);
        // A full disk loses no bytes: they are written to the same offset again, at once where the reserve has space.
        while outcome.as_ref().is_err_and(is_full) && self.shared.use_reserve(unwritten.len() as u64) {
            outcome = active.segment.file.write_at(unwritten, place);
        }
        match outcome {
            Ok(()) => {
                self.shared.status.written_bytes.fetch_add(unwritten.len() as u64, Relaxed);
                self.since_measured += unwritten.len() as u64;
                self.written = self.buffer.len();
                Ok(())
            }
            Err(error) => {
                active.broken = !is_full(&error);
                self.note_failure("write", &error);
                Err(())
            }
        }
    }

    /// Syncs the written frames. After a failure the file is abandoned: the content on the disk is unknown, and a
    /// second sync would not report it.
    fn sync_written(&mut self) -> Result<(), ()> {
        let Some(active) = &mut self.active else {
            return Err(());
        };
        if active.broken {
            return self.replace_segment();
        }
        let begin = Instant::now();
        match active.segment.file.sync_data() {
            Ok(()) => {
                self.shared.status.note_sync(begin.elapsed());
                active.position += self.written as u64;
                self.buffer.drain(..self.written);
                self.written = 0;
                self.durable = frame::number_at(&self.buffer, 0).unwrap_or(self.next);
                if self.buffer.capacity() > KEPT_BUFFER_BYTES && self.buffer.is_empty() {
                    self.buffer = Vec::new();
                }
                Ok(())
            }
            Err(error) => {
                active.broken = true;
                self.note_failure("sync", &error);
                Err(())
            }
        }
    }

    fn ask_for_merge(&self, catalog: &Catalog) {
        let is_full = self.shared.status.is_full();
        let threshold = pace::merge_threshold(&self.shared.settings, catalog.table_bytes(), is_full);
        if catalog.closed_bytes() > threshold || catalog.segments.len() > MAX_SEGMENTS {
            self.shared.work.ask(|wanted| wanted.merge = true);
        }
    }

    fn tell(&mut self, commits: &mut dyn Commits) {
        let status = &self.shared.status;
        status.groups.fetch_add(1, Relaxed);
        status.batches.fetch_add(self.group.batches, Relaxed);
        status.operations.fetch_add(self.group.operations, Relaxed);
        status.pending_bytes.fetch_sub(self.group.weight, Relaxed);
        self.group = Group::default();
        for (writer, sequence) in self.marks.drain(..) {
            commits.on_committed(writer, sequence);
        }
        self.set_state(State::Ok);
        self.measure();
    }

    /// Brings the sizes in the status up to date: that of the journal always, the free space now and then.
    fn measure(&mut self) {
        let due = self.since_measured >= MEASURE_BYTES;
        if due || self.shared.status.is_full() {
            self.since_measured = 0;
            self.shared.measure_free_space();
        }
        let catalog = self.shared.catalog();
        self.shared.measure(&catalog);
        let settings = &self.shared.settings;
        let half_full = self.active.as_ref().is_some_and(|active| active.position > settings.segment_bytes / 2);
        if half_full && catalog.spares.is_empty() {
            self.shared.work.ask(|wanted| wanted.spare = true);
        }
    }

    fn note_failure(&self, action: &str, error: &io::Error) {
        let name = self.active.as_ref().map(|active| active.segment.name()).unwrap_or_default();
        self.note_state(State::after(error), format!("cannot {action} {name}: {error}{}", write_remedy(error)));
    }

    fn note_state(&self, state: fn(String) -> State, text: String) {
        self.shared.status.failures.fetch_add(1, Relaxed);
        self.shared.status.note_error(text.clone());
        self.set_state(state(text));
        self.shared.measure_free_space();
    }

    fn set_state(&self, state: State) {
        if !self.shared.status.differs(&state) || self.shared.status.is_fenced() {
            return;
        }
        match &state {
            State::Ok => tracing::info!("the store accepts writes again"),
            State::Full => tracing::error!("the store is full; acknowledgements wait until there is space"),
            State::Failing(text) => tracing::error!(error = %text, "the store fails; acknowledgements wait"),
            State::Fenced(text) => {
                // The disk has notified its creator, who reports the cause.
                tracing::info!(why = %text, "the store is fenced: no more messages are acknowledged");
            }
        }
        self.shared.status.set_state(state);
    }
}
