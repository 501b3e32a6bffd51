//! The thread that makes changes durable: all that has piled up at once.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use super::change::Change;
use super::file::LogFile;
use super::{Log, Queued, Shared, same};
use crate::{BusError, LogName, LogSpec, Partition, Place};

/// A file is written anew when it is this much larger than what is kept of it, and at least twice as large.
const SPARE_BYTES: u64 = 4 << 20;

fn directory_error(error: &io::Error) -> BusError {
    BusError::Directory(error.to_string())
}

/// Takes the directory, so that no other process does, and starts the thread.
pub(super) fn start(directory: &Path, shared: &Arc<Shared>) -> Result<JoinHandle<()>, BusError> {
    fs::create_dir_all(directory).map_err(|error| directory_error(&error))?;
    let path = directory.join("lock");
    let lock = File::create(&path).map_err(|error| directory_error(&error))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let advice = format!("another process uses it ({}); stop that one first", path.display());
            return Err(BusError::Directory(advice));
        }
        Err(TryLockError::Error(error)) => return Err(directory_error(&error)),
    }
    let writer = Writer { shared: Arc::clone(shared), files: HashMap::new(), _lock: lock };
    let start = thread::Builder::new().name("bus-writer".to_owned()).spawn(move || writer.run());
    start.map_err(|error| directory_error(&error))
}

/// Makes a log known: from its file, or with a new one.
pub(super) fn load(directory: &Path, spec: &Arc<LogSpec>, shared: &Shared) -> Result<(), BusError> {
    let mut state = shared.state();
    if let Some(log) = state.logs.get(&spec.name) {
        return same(&log.spec, spec);
    }
    let (mut file, changes) = LogFile::open(directory, &spec.name).map_err(|error| directory_error(&error))?;
    let mut changes = changes.into_iter();
    if let Some(first) = changes.next() {
        let Change::Spec { partitions, writers, keep } = first else {
            return Err(BusError::Directory(format!(
                "the file of {} does not say what it is; move it away",
                spec.name
            )));
        };
        same(&LogSpec { partitions, writers, keep, ..LogSpec::clone(spec) }, spec)?;
    } else {
        file.append(&[spec_change(spec)]).map_err(|error| directory_error(&error))?;
    }
    let mut log = Log::new(Arc::clone(spec));
    log.recover(changes.map(|change| (partition_of(&change), change)));
    state.bytes += log.bytes();
    state.logs.insert(spec.name.clone(), log);
    state.files.insert(spec.name.clone(), file);
    Ok(())
}

fn spec_change(spec: &LogSpec) -> Change {
    Change::Spec { partitions: spec.partitions, writers: spec.writers, keep: spec.keep }
}

fn partition_of(change: &Change) -> u32 {
    match change {
        Change::Spec { .. } => 0,
        Change::Base { partition, .. }
        | Change::Record { partition, .. }
        | Change::Claim { partition, .. }
        | Change::Trim { partition, .. } => *partition,
    }
}

struct Writer {
    shared: Arc<Shared>,
    files: HashMap<LogName, LogFile>,
    /// Held as long as the thread lives.
    _lock: File,
}

impl Writer {
    fn run(mut self) {
        loop {
            let (queue, stopped) = {
                let state = self.shared.state();
                let waiting = |state: &mut super::State| state.queue.is_empty() && !state.stopped;
                let mut state = self.shared.work.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
                (std::mem::take(&mut state.queue), state.stopped)
            };
            if queue.is_empty() && stopped {
                return;
            }
            let mut batches: HashMap<LogName, Vec<Queued>> = HashMap::new();
            for queued in queue {
                batches.entry(queued.log.clone()).or_default().push(queued);
            }
            for (log, batch) in batches {
                self.write(&log, batch);
            }
        }
    }

    fn write(&mut self, log: &LogName, batch: Vec<Queued>) {
        let mut finishes = Vec::with_capacity(batch.len());
        let mut changes = Vec::with_capacity(batch.len());
        let mut places = BTreeSet::new();
        for Queued { partition, change, finish, .. } in batch {
            finishes.push(finish);
            changes.push(change);
            places.insert(partition);
        }
        let written = self.append(log, &changes);
        let outcome = written.map_err(|error| self.broke(log, &changes, &error));
        if outcome.is_ok() {
            let changes = changes.into_iter().map(|change| (partition_of(&change), change));
            self.shared.state().settle(log, changes);
        }
        for partition in places {
            self.shared.pump(&Place { log: log.clone(), partition: Partition(partition) });
        }
        for finish in finishes {
            finish(outcome.clone());
        }
        if outcome.is_ok()
            && let Err(error) = self.tidy_up(log)
        {
            self.broke(log, &[], &error);
        }
    }

    fn append(&mut self, log: &LogName, changes: &[Change]) -> io::Result<()> {
        // A file that could not be written is left alone: what is behind a gap would be taken for damage.
        {
            let mut state = self.shared.state();
            if let Some(reason) = state.logs.get(log).and_then(|log| log.broken.clone()) {
                return Err(io::Error::other(reason));
            }
            self.files.extend(state.files.remove(log).map(|file| (log.clone(), file)));
        }
        let file = self.files.get_mut(log).ok_or_else(|| io::Error::other("the file of the log is not open"))?;
        file.append(changes)
    }

    /// The log takes nothing any more: what its file holds is unknown until it is opened again.
    fn broke(&self, log: &LogName, changes: &[Change], error: &io::Error) -> BusError {
        tracing::error!(%log, %error, "a log of the bus cannot be written; it takes nothing until the bus is opened again");
        let mut state = self.shared.state();
        let mut bytes = 0;
        if let Some(log) = state.logs.get_mut(log) {
            log.broken.get_or_insert(error.to_string());
            for change in changes {
                if let Change::Record { partition, record } = change
                    && let Some(partition) = log.partitions.get_mut(*partition as usize)
                {
                    partition.settle(record.size() as u64);
                    bytes += record.size() as u64;
                }
            }
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        directory_error(error)
    }

    /// Writes a file anew that is mostly of what is not kept any more.
    fn tidy_up(&mut self, name: &LogName) -> io::Result<()> {
        let Some(file) = self.files.get_mut(name) else { return Ok(()) };
        let changes = {
            let state = self.shared.state();
            let Some(log) = state.logs.get(name) else { return Ok(()) };
            let kept = log.bytes();
            if file.bytes < kept * 2 + SPARE_BYTES {
                return Ok(());
            }
            let mut changes = vec![spec_change(&log.spec)];
            log.partitions.iter().zip(0..).for_each(|(partition, number)| partition.image(number, &mut changes));
            changes
        };
        file.replace(&changes)
    }
}
