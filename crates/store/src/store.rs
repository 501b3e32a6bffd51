//! The store from outside.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::catalog::Shared;
use crate::commits::Commits;
use crate::disk::{Disk, LockGuard};
use crate::journal::frame::MAX_PAYLOAD;
use crate::journal_writer::{Batch, JournalWriter, Step};
use crate::load::{LoadCallback, Loaded, Loader};
use crate::merge::{self, Merge, MergeError, Runs, give_room, make_spare};
use crate::operation;
use crate::recovery::{self, RecoveryReport};
use crate::threads::{self, Message, Request};
use crate::{OpenError, ReadError, Settings, Status, SubmitError, SweepFactory};

/// The result of opening.
pub struct Opened {
    /// The store, at rest.
    pub store: Store,
    /// The findings of the recovery.
    pub report: RecoveryReport,
}

/// Opens the store of a disk, or creates one.
///
/// # Errors
/// When another process has it, when a file cannot be read, is damaged, missing or of another version, and when the
/// disk cannot be written. The attempt changed nothing that would make a second attempt worse.
pub fn open(disk: Arc<dyn Disk>, settings: Settings, sweep: SweepFactory) -> Result<Opened, OpenError> {
    let recovered = recovery::recover(disk, settings, sweep)?;
    let store = Store { shared: recovered.shared, writer: recovered.writer, lock: recovered.lock };
    let report = recovered.report;
    log_report(&report);
    log_full(&store.shared.status);
    Ok(Opened { store, report })
}

fn log_report(report: &RecoveryReport) {
    if let Some(torn) = &report.torn {
        tracing::warn!(
            file = %torn.file, offset = torn.offset, bytes = torn.bytes, frames = torn.frames,
            "the last journal record was incomplete and not acknowledged; it is skipped"
        );
    }
    tracing::info!(
        created = report.created,
        clean = report.clean,
        segments = report.segments,
        batches = report.frames,
        bytes = report.bytes,
        table_entries = report.table_entries,
        removed = report.removed.len(),
        "the store is open"
    );
}

fn log_full(status: &Status) {
    if status.is_full() {
        let (used, free) = (status.store_bytes(), status.free_bytes());
        let (min_free, max) = (status.min_free_bytes(), status.max_bytes());
        tracing::warn!(
            used,
            max,
            free,
            min_free,
            "the store is full at its start: it accepts no messages until a merge has freed space"
        );
    }
}

/// A store at rest: all of it can be read, then it is started.
pub struct Store {
    shared: Arc<Shared>,
    writer: JournalWriter,
    lock: LockGuard,
}

/// Visits an entry: key and value.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

impl Store {
    /// Visits all live entries in ascending order of their keys, except the entries that the sweep refuses. Every block
    /// and frame is checked on the way.
    ///
    /// # Errors
    /// When a part cannot be read or is damaged; also when the journal has to be sorted through files and they cannot
    /// be written.
    pub fn for_each(&self, visit: &mut Visit<'_>) -> Result<(), MergeError> {
        visit_all(&self.shared, visit)
    }

    /// How the store is doing.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.shared.status)
    }

    /// Starts the threads that write, merge and load.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self, commits: Box<dyn Commits>) -> std::io::Result<Running> {
        let (sender, receiver) = mpsc::channel();
        let (loads, requests) = mpsc::sync_channel(self.shared.settings.max_waiting_loads);
        let loader = Loader::new(Arc::clone(&self.shared));
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (shared, writer) = (Arc::clone(&self.shared), self.writer);
        let writing = {
            let shared = Arc::clone(&shared);
            spawn("store-write").spawn(move || threads::write(&shared, writer, &receiver, commits))?
        };
        let mut running = Running {
            shared: Arc::clone(&shared),
            sender,
            loads,
            writing: Some(writing),
            others: Vec::new(),
            lock: Some(self.lock),
        };
        shared.work.ask(|wanted| wanted.reserve = true);
        running.others.push(spawn("store-load").spawn(move || threads::load(loader, &requests))?);
        running.others.push(spawn("store-merge").spawn(move || threads::merge(&shared))?);
        Ok(running)
    }

    /// The parts that the writing thread would get.
    #[cfg(test)]
    pub(crate) fn into_parts(self) -> (Arc<Shared>, JournalWriter) {
        (self.shared, self.writer)
    }

    /// Drives the store by hand and without threads, so that a run can be repeated.
    pub fn stepped(self, commits: Box<dyn Commits>) -> Stepped {
        let loader = Loader::new(Arc::clone(&self.shared));
        Stepped { shared: self.shared, writer: self.writer, loader, commits, merge: None, _lock: self.lock }
    }
}

pub(crate) fn visit_all(shared: &Shared, visit: &mut Visit<'_>) -> Result<(), MergeError> {
    let catalog = shared.catalog().clone();
    let mut runs = Runs::new(&shared.disk);
    let mut entries = merge::merged(shared, catalog.table.as_ref(), &catalog.segments, &mut runs)?;
    let mut sweep = (shared.sweep)();
    while let Some((key, value)) = entries.current() {
        if let Some(value) = value.filter(|value| sweep.keep(key, value)) {
            visit(key, value);
        }
        entries.advance()?;
    }
    Ok(())
}

/// A store whose threads run. Dropping it stops it.
pub struct Running {
    shared: Arc<Shared>,
    sender: mpsc::Sender<Message>,
    loads: SyncSender<Request>,
    writing: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    lock: Option<LockGuard>,
}

impl Running {
    /// A handle for submitting batches. Each number belongs to one writer, whose sequences ascend.
    pub fn writer(&self, number: u16) -> Writer {
        Writer { number, shared: Arc::clone(&self.shared), sender: self.sender.clone() }
    }

    /// A handle for loading entries.
    pub fn reader(&self) -> Reader {
        Reader { loads: self.loads.clone() }
    }

    /// How the store is doing.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.shared.status)
    }

    /// Requests a merge of the closed journal files, below the threshold, too.
    pub fn ask_for_merge(&self) {
        self.shared.work.ask(|wanted| wanted.merge = true);
    }

    /// Commits the submitted batches, reports their commits, and ends the threads. A batch that the disk keeps refusing
    /// is dropped after a few attempts; its commit is never reported. No other process opens the store until the lock is
    /// dropped.
    pub fn stop(mut self) -> Option<LockGuard> {
        self.lock.take()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Stop);
        let _ = self.loads.send(Request::Stop);
        self.shared.work.ask(|wanted| wanted.stop = true);
        for thread in self.writing.take().into_iter().chain(self.others.drain(..)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

/// Hands in the batches of one writer. Clones are the same writer.
#[derive(Clone)]
pub struct Writer {
    number: u16,
    shared: Arc<Shared>,
    sender: mpsc::Sender<Message>,
}

impl Writer {
    /// Submits a batch of operations, as [`operation`] describes them; a batch without operations is a barrier. It
    /// never waits: [`Commits`] reports the commit. Sequences ascend. The caller limits the number of pending batches,
    /// and asks [`Status::is_full`] before it accepts new messages.
    ///
    /// # Errors
    /// When the payload is malformed, has too many operations, or the store has been stopped.
    pub fn submit(&self, sequence: u64, payload: Vec<u8>) -> Result<(), SubmitError> {
        self.hand_in(sequence, payload, true)
    }

    /// The same for a batch for whose commit nothing waits. It is committed with the next batch of [`Self::submit`] by
    /// any writer, after [`UNAWAITED_WAIT`](crate::UNAWAITED_WAIT) at the latest. So it usually costs no sync of its own.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_unawaited(&self, sequence: u64, payload: Vec<u8>) -> Result<(), SubmitError> {
        self.hand_in(sequence, payload, false)
    }

    fn hand_in(&self, sequence: u64, payload: Vec<u8>, is_awaited: bool) -> Result<(), SubmitError> {
        let mut batch = make_batch(&self.shared, self.number, sequence, payload)?;
        batch.is_awaited = is_awaited;
        let weight = batch.weight();
        self.sender.send(Message::Batch(batch)).map_err(|_| {
            self.shared.status.pending_bytes.fetch_sub(weight, Relaxed);
            SubmitError::Stopped
        })
    }
}

fn make_batch(shared: &Shared, writer: u16, sequence: u64, payload: Vec<u8>) -> Result<Batch, SubmitError> {
    if payload.len() > MAX_PAYLOAD {
        return Err(SubmitError::TooLarge(payload.len()));
    }
    // A malformed payload must not reach the journal: the store could never be opened again.
    let operations = operation::count(&payload)?;
    let batch = Batch { writer, sequence, operations, payload, is_awaited: true };
    shared.status.pending_bytes.fetch_add(batch.weight(), Relaxed);
    Ok(batch)
}

/// Loads entries while the store runs.
#[derive(Clone)]
pub struct Reader {
    loads: SyncSender<Request>,
}

impl Reader {
    /// Loads the entries from `from` on and below `to`, including at least everything that was committed before the
    /// call. Returns at most `max_bytes` of keys and values, but at least one entry. The callback runs on a thread of
    /// the store, or on this one for [`ReadError::Busy`] and [`ReadError::Stopped`].
    pub fn load(&self, from: Vec<u8>, to: Vec<u8>, max_bytes: usize, callback: LoadCallback) {
        let request = Request::Load(threads::Load { from, to, max_bytes, callback });
        let (request, error) = match self.loads.try_send(request) {
            Ok(()) => return,
            Err(TrySendError::Full(request)) => (request, ReadError::Busy),
            Err(TrySendError::Disconnected(request)) => (request, ReadError::Stopped),
        };
        if let Request::Load(load) = request {
            (load.callback)(Err(error));
        }
    }
}

/// A store whose steps the caller triggers, for tests and simulations.
pub struct Stepped {
    shared: Arc<Shared>,
    writer: JournalWriter,
    loader: Loader,
    commits: Box<dyn Commits>,
    merge: Option<Merge>,
    _lock: LockGuard,
}

impl Stepped {
    /// Hands in a batch.
    ///
    /// # Errors
    /// As [`Writer::submit`].
    pub fn submit(&mut self, writer: u16, sequence: u64, payload: Vec<u8>) -> Result<(), SubmitError> {
        self.writer.take(make_batch(&self.shared, writer, sequence, payload)?);
        Ok(())
    }

    /// The same for a batch for whose commit nothing waits.
    ///
    /// # Errors
    /// As [`Writer::submit`].
    pub fn submit_unawaited(&mut self, writer: u16, sequence: u64, payload: Vec<u8>) -> Result<(), SubmitError> {
        let batch = make_batch(&self.shared, writer, sequence, payload)?;
        self.writer.take(Batch { is_awaited: false, ..batch });
        Ok(())
    }

    /// Whether a store would put the submitted batches off, since nothing waits for their commit.
    pub fn may_wait(&self) -> bool {
        self.writer.may_wait()
    }

    /// Writes a group of the submitted batches, and reports its commit. Returns whether no batch is left.
    pub fn step(&mut self) -> bool {
        self.writer.step(&mut *self.commits) == Step::Idle
    }

    /// Syncs the written frames, where the durability is relaxed.
    pub fn sync(&mut self) {
        self.writer.sync();
    }

    /// Closes the current file, as an idle store does, so that a merge takes all of it.
    pub fn checkpoint(&mut self) {
        self.writer.checkpoint();
    }

    /// Says at the end of the journal that it ends, as a store does that is stopped.
    pub fn end(&mut self) {
        self.writer.end();
    }

    /// Continues a merge of the closed files by this number of entries; begins one when none is running. Returns
    /// whether one is running.
    ///
    /// # Errors
    /// When the merge failed. It is dropped; no entry is lost.
    pub fn merge(&mut self, entries: usize) -> Result<bool, MergeError> {
        let merged = self.try_merge(entries);
        merged.inspect_err(|error| give_room(&self.shared, error))
    }

    fn try_merge(&mut self, entries: usize) -> Result<bool, MergeError> {
        let mut merge = match self.merge.take() {
            Some(merge) => merge,
            None => match Merge::begin(&self.shared)? {
                Some(merge) => merge,
                None => return Ok(false),
            },
        };
        match merge.advance(entries) {
            Ok(true) => {
                self.merge = Some(merge);
                Ok(true)
            }
            Ok(false) => merge.finish().map(|()| false),
            Err(error) => {
                merge.abandon();
                Err(error)
            }
        }
    }

    /// Makes the reserve whole where there is room, as the merging thread does in time.
    pub fn fill_reserve(&mut self) {
        self.shared.fill_reserve();
    }

    /// Asks the disk how much room there is, as the writing thread does in time.
    pub fn measure_free_space(&mut self) {
        self.shared.measure_free_space();
    }

    /// Makes a spare file of the journal, as the merging thread does in time.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn make_spare(&mut self) -> std::io::Result<()> {
        make_spare(&self.shared)
    }

    /// As [`Reader::load`], at once.
    ///
    /// # Errors
    /// When a part cannot be read.
    pub fn load(&mut self, from: &[u8], to: &[u8], max_bytes: usize) -> Result<Loaded, ReadError> {
        self.loader.load(from, to, max_bytes)
    }

    /// Gives back the memory of loads that a merge has made superfluous, as the loading thread does in time.
    pub fn forget_merged(&mut self) {
        self.loader.forget_merged();
    }

    /// True if a merge was asked for since this was last called.
    pub fn wants_merge(&self) -> bool {
        self.shared.work.take(Some(Duration::ZERO)).merge
    }

    /// As [`Store::for_each`].
    ///
    /// # Errors
    /// As there.
    pub fn for_each(&self, visit: &mut Visit<'_>) -> Result<(), MergeError> {
        visit_all(&self.shared, visit)
    }

    /// How the store is doing.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.shared.status)
    }
}
