//! The bus in one process, and the bus of several processes that share a directory.
//!
//! - In memory: all clones see the same logs.
//! - With a directory: the process that holds the lock of the directory keeps the logs, in memory and in a file for
//!   each of them, and `server` serves them over a socket to every process, itself included. `member` is a process on
//!   that socket; it takes the lock when there is no server. `frame` is their protocol.

mod change;
mod coding;
mod file;
mod frame;
mod member;
mod partition;
mod server;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use change::{Change, Origin};
pub(crate) use member::open as open_directory;
use partition::{Earlier, Partition};

use crate::backend::{Backend, Target};
use crate::budget::Ticket;
use crate::completion::Completion;
use crate::connection::Link;
use crate::feed::Feed;
use crate::live::Mailbox;
use crate::{
    Append, Bounds, BusError, Connection, Epoch, LiveMessage, LogName, LogPartition, LogSpec, Observer, Position,
    Reader, Record, Settings, SubjectFilter, Subscription, Wake, Writers,
};

/// Tells the end of a request, once no lock is held.
type Finish = Box<dyn FnOnce(Result<(), BusError>) + Send>;

struct Log {
    spec: Arc<LogSpec>,
    partitions: Vec<Partition>,
    /// Whether it is durable that there is this log.
    is_made: bool,
    /// Why it takes nothing any more: its file could not be written.
    broken: Option<String>,
}

impl Log {
    fn new(spec: Arc<LogSpec>) -> Self {
        let partitions = (0..spec.partitions).map(|_| Partition::default()).collect();
        Self { spec, partitions, is_made: false, broken: None }
    }

    fn limit(&mut self, max_records: u64, max_bytes: u64) {
        self.spec = Arc::new(LogSpec { max_records, max_bytes, ..LogSpec::clone(&self.spec) });
    }

    fn bytes(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.bytes).sum()
    }

    /// Repeats the changes of a file.
    fn recover(&mut self, changes: impl IntoIterator<Item = (u32, Change)>) {
        let keep = self.spec.keep;
        self.is_made = true;
        for (partition, change) in changes {
            if let Change::Spec { max_records, max_bytes, .. } = change {
                self.limit(max_records, max_bytes);
            }
            if let Some(partition) = self.partitions.get_mut(partition as usize) {
                partition.recover(change, keep);
            }
        }
    }
}

/// A change that is on its way to the disk.
struct Queued {
    log: LogName,
    partition: u32,
    change: Change,
    finish: Finish,
}

#[derive(Default)]
struct State {
    logs: HashMap<LogName, Log>,
    mailboxes: Vec<Weak<Mailbox>>,
    queue: Vec<Queued>,
    /// Files that were read, for the writer to go on with.
    files: HashMap<LogName, file::LogFile>,
    /// Bytes of all records, those on their way among them.
    bytes: u64,
    stopped: bool,
}

/// The state that the bus and its writer share.
struct Shared {
    state: Mutex<State>,
    /// There is something to write.
    work: Condvar,
    settings: Settings,
    /// Called when a file could not be written; without it, nothing is written to files.
    broke: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the readers of a partition their records.
    fn pump(&self, place: &LogPartition) {
        let feeds = {
            let mut state = self.state();
            let Some(log) = state.logs.get_mut(&place.log) else { return };
            let (keep, partition) = (log.spec.keep, log.partitions.get_mut(place.partition.0 as usize));
            partition.map(|partition| partition.pump(place, keep)).unwrap_or_default()
        };
        for feed in feeds {
            feed.wake();
        }
    }

    /// Makes a change visible, and tells so: at once, or when the writer has made it durable.
    fn commit(&self, mut state: MutexGuard<'_, State>, target: &Target, change: Change, finish: Finish) {
        let partition = target.place.partition.0;
        if self.broke.is_some() {
            state.queue.push(Queued { log: target.place.log.clone(), partition, change, finish });
            drop(state);
            return self.work.notify_one();
        }
        state.settle(&target.place.log, [(partition, change)]);
        drop(state);
        self.pump(&target.place);
        finish(Ok(()));
    }
}

impl State {
    /// Makes changes visible and counts the present records.
    fn settle(&mut self, log: &LogName, changes: impl IntoIterator<Item = (u32, Change)>) {
        let Some(log) = self.logs.get_mut(log) else { return };
        let keep = log.spec.keep;
        for (partition, change) in changes {
            if let Change::Spec { max_records, max_bytes, .. } = change {
                log.limit(max_records, max_bytes);
                log.is_made = true;
            }
            let Some(partition) = log.partitions.get_mut(partition as usize) else { continue };
            let mut reserved = 0;
            if let Change::Record { record, .. } = &change {
                reserved = record.size() as u64;
                partition.settle(reserved);
            }
            let before = partition.bytes;
            partition.apply(change, keep);
            self.bytes = (self.bytes + partition.bytes).saturating_sub(before + reserved);
        }
    }
}

struct Embedded {
    shared: Arc<Shared>,
    link: Arc<Link>,
    writer: Option<std::thread::JoinHandle<()>>,
}

/// Opens a bus of this process alone, in memory.
pub(crate) fn open(settings: &Settings, observer: Observer) -> Arc<dyn Backend> {
    let shared = Shared { state: Mutex::default(), work: Condvar::new(), settings: settings.clone(), broke: None };
    let link = Link::new("embedded".to_owned(), observer);
    link.connected();
    Arc::new(Embedded { shared: Arc::new(shared), link, writer: None })
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.work.notify_one();
        // Appends are written before the bus has gone, unless the writer itself drops it.
        if let Some(writer) = self.writer.take()
            && writer.thread().id() != std::thread::current().id()
        {
            let _ = writer.join();
        }
    }
}

/// The next step of an append.
enum AppendPlan {
    /// It is to be written, to this position.
    New(Change, Position),
    /// It was appended before, to this position, and whether that is durable.
    Again(Position, bool),
}

impl Embedded {
    /// Opens the logs in a directory whose lock is held: it is given back when this is dropped and all is written.
    fn durable(
        directory: &Path,
        lock: File,
        settings: &Settings,
        broke: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Self, BusError> {
        let (work, settings) = (Condvar::new(), settings.clone());
        let shared = Arc::new(Shared { state: Mutex::default(), work, settings, broke: Some(broke) });
        let writer = Some(writer::start(directory, lock, &shared)?);
        let link = Link::new("embedded".to_owned(), Arc::new(|_| {}));
        Ok(Self { shared, link, writer })
    }

    /// A partition of a log that exists.
    fn target(&self, place: LogPartition) -> Result<Target, BusError> {
        let state = self.shared.state();
        let spec = state.logs.get(&place.log).map(|log| &log.spec);
        match spec.filter(|spec| place.partition.0 < spec.partitions) {
            Some(spec) => Ok(Target { spec: Arc::clone(spec), place }),
            None => Err(BusError::Unknown(place)),
        }
    }

    /// Below this is all that is confirmed of a partition.
    fn end(&self, target: &Target) -> Result<Position, BusError> {
        self.shared.state().partition(target).map(|partition| partition.bounds().next)
    }

    /// Appends once, also when it is sent again.
    fn append_from(&self, target: &Target, append: Append, origin: Option<Origin>, completion: Completion<Position>) {
        let mut state = self.shared.state();
        match self.accept(&mut state, target, append, origin) {
            Ok(AppendPlan::Again(position, true)) => {
                drop(state);
                completion.finish(Ok(position));
            }
            Ok(accepted) => {
                let (change, position) = match accepted {
                    AppendPlan::New(change, position) => (change, position),
                    // Changes nothing, and is written behind the record.
                    AppendPlan::Again(position, _) => {
                        (Change::Trim { partition: target.place.partition.0, below: Position::START }, position)
                    }
                };
                let finish =
                    Box::new(move |outcome: Result<(), BusError>| completion.finish(outcome.map(|()| position)));
                self.shared.commit(state, target, change, finish);
            }
            Err(error) => {
                drop(state);
                completion.finish(Err(error));
            }
        }
    }

    /// The change that an append needs, and its position.
    fn accept(
        &self,
        state: &mut State,
        target: &Target,
        append: Append,
        origin: Option<Origin>,
    ) -> Result<AppendPlan, BusError> {
        let (size, max) = (append.size() as u64, self.shared.settings.max_embedded_bytes);
        let total = state.bytes + size;
        let partition = state.partition(target)?;
        match origin.map_or(Earlier::None, |origin| partition.earlier(origin)) {
            Earlier::None => {}
            Earlier::At(position) => return Ok(AppendPlan::Again(position, partition.is_confirmed(position))),
            Earlier::Overtaken => {
                let reason = "a later append of this process is stored, and this one was refused before".to_owned();
                return Err(BusError::Refused { action: "append to a log", reason });
            }
        }
        if target.spec.writers == Writers::Owner
            && let Some(epoch) = append.epoch
            && partition.owner != Some(epoch)
        {
            return Err(BusError::Fenced { place: target.place.clone(), epoch });
        }
        let room = if total > max {
            Err(BusError::Full { place: target.place.clone(), limit: "max_embedded_bytes".to_owned() })
        } else {
            let max = (target.spec.max_records, target.spec.max_bytes);
            partition.reserve(size, &append.key, &target.place, max)
        };
        if let Err(error) = room {
            // Nothing of an owner is stored after a gap.
            partition.owner = None;
            return Err(error);
        }
        let position = partition.advance();
        if let Some(origin) = origin {
            partition.remember(origin, position);
        }
        let Append { key, headers, payload, .. } = append;
        let record = Record { position, key, headers, payload };
        state.bytes = total;
        Ok(AppendPlan::New(Change::Record { partition: target.place.partition.0, origin, record }, position))
    }
}

impl State {
    fn partition(&mut self, target: &Target) -> Result<&mut Partition, BusError> {
        let unknown = || BusError::Unknown(target.place.clone());
        let log = self.logs.get_mut(&target.place.log).ok_or_else(unknown)?;
        if let Some(reason) = &log.broken {
            return Err(BusError::Directory(reason.clone()));
        }
        log.partitions.get_mut(target.place.partition.0 as usize).ok_or_else(unknown)
    }
}

impl Backend for Embedded {
    fn connection(&self) -> Connection {
        self.link.state()
    }

    fn failure(&self) -> Option<String> {
        self.link.failure()
    }

    fn create(&self, spec: Arc<LogSpec>, completion: Completion<()>) {
        let mut state = self.shared.state();
        let log = state.logs.entry(spec.name.clone()).or_insert_with(|| Log::new(Arc::clone(&spec)));
        let (before, is_made) = (Arc::clone(&log.spec), log.is_made);
        let is_as_asked = (before.max_records, before.max_bytes) == (spec.max_records, spec.max_bytes);
        let outcome = same(&before, &spec);
        if outcome.is_err() || (is_made && is_as_asked) {
            drop(state);
            return completion.finish(outcome);
        }
        let change = writer::spec_change(&spec);
        let target = Target { place: LogPartition { log: spec.name.clone(), partition: crate::Partition(0) }, spec };
        self.shared.commit(state, &target, change, Box::new(move |outcome| completion.finish(outcome)));
    }

    fn own(&self, target: Target, completion: Completion<Epoch>) {
        let mut state = self.shared.state();
        let partition = match state.partition(&target) {
            Ok(partition) => partition,
            Err(error) => {
                drop(state);
                return completion.finish(Err(error));
            }
        };
        let position = partition.advance();
        partition.owner = Some(Epoch(position));
        let change = Change::Claim { partition: target.place.partition.0, position };
        let finish =
            Box::new(move |outcome: Result<(), BusError>| completion.finish(outcome.map(|()| Epoch(position))));
        self.shared.commit(state, &target, change, finish);
    }

    fn append(&self, target: Target, append: Append, completion: Completion<Position>) {
        self.append_from(&target, append, None, completion);
    }

    fn read(&self, target: Target, from: Position, wake: Wake) -> Result<Reader, BusError> {
        let (shared, place) = (Arc::downgrade(&self.shared), target.place.clone());
        let room = Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.pump(&place);
            }
        });
        let feed = Feed::new(from, wake, &self.shared.settings, room);
        self.shared.state().partition(&target)?.add(Arc::downgrade(&feed));
        self.shared.pump(&target.place);
        Ok(Reader::new(feed))
    }

    fn bounds(&self, target: Target, completion: Completion<Bounds>) {
        let outcome = self.shared.state().partition(&target).map(|partition| partition.bounds());
        completion.finish(outcome);
    }

    fn trim(&self, target: Target, below: Position, completion: Completion<()>) {
        let mut state = self.shared.state();
        if let Err(error) = state.partition(&target) {
            drop(state);
            return completion.finish(Err(error));
        }
        let change = Change::Trim { partition: target.place.partition.0, below };
        self.shared.commit(state, &target, change, Box::new(move |outcome| completion.finish(outcome)));
    }

    fn publish(&self, message: LiveMessage, _room: Ticket) -> Result<(), BusError> {
        let mailboxes: Vec<Arc<Mailbox>> = {
            let mut state = self.shared.state();
            state.mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
            state.mailboxes.iter().filter_map(Weak::upgrade).collect()
        };
        for mailbox in mailboxes {
            mailbox.offer(&message);
        }
        Ok(())
    }

    fn subscribe(&self, filter: SubjectFilter, wake: Wake) -> Result<Subscription, BusError> {
        let mailbox = Mailbox::new(filter, wake, &self.shared.settings);
        self.shared.state().mailboxes.push(Arc::downgrade(&mailbox));
        Ok(Subscription::new(mailbox, Box::new(|| {})))
    }
}

/// Whether a log exists as a request wants it; its limits may differ.
fn same(exists: &LogSpec, wanted: &LogSpec) -> Result<(), BusError> {
    let difference = match () {
        () if exists.partitions != wanted.partitions => "number of partitions",
        () if exists.writers != wanted.writers => "kind of writers",
        () if exists.keep != wanted.keep => "way of keeping records",
        () => return Ok(()),
    };
    Err(BusError::Mismatch { log: exists.name.to_string(), difference })
}
