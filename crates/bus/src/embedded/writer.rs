//! The thread that makes changes durable: all that has piled up at once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use super::change::Change;
use super::file::{LogFile, SUFFIX};
use super::{Finish, Log, Queued, Shared, State};
use crate::{BusError, LogName, LogPartition, LogSpec, Partition};

/// Bytes that a file has beyond twice its kept records, and twice its last new file, when it is rewritten.
const SPARE_BYTES: u64 = 4 << 20;

fn directory_error(error: &io::Error) -> BusError {
    BusError::Directory(error.to_string())
}

/// Reads the logs of the directory, and starts the thread. The lock is held as long as the thread lives.
pub(super) fn start(directory: &Path, lock: File, shared: &Arc<Shared>) -> Result<JoinHandle<()>, BusError> {
    let mut state = shared.state();
    for entry in fs::read_dir(directory).map_err(|error| directory_error(&error))? {
        let name = entry.map_err(|error| directory_error(&error))?.file_name();
        if let Some(log) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) {
            load(directory, &LogName::within(log.to_owned()), &mut state)?;
        }
    }
    drop(state);
    let (shared, directory) = (Arc::clone(shared), directory.to_owned());
    let writer = Writer { shared, directory, files: HashMap::new(), _lock: lock };
    let start = thread::Builder::new().name("bus-writer".to_owned()).spawn(move || writer.run());
    start.map_err(|error| directory_error(&error))
}

/// Reads a log from its file.
fn load(directory: &Path, name: &LogName, state: &mut State) -> Result<(), BusError> {
    let (file, changes) = LogFile::open(directory, name).map_err(|error| directory_error(&error))?;
    let mut changes = changes.into_iter();
    let spec = match changes.next() {
        // It was about to be made, and nothing of it was confirmed.
        None => return Ok(()),
        Some(Change::Spec { partitions, writers, keep, max_records, max_bytes }) => {
            LogSpec { writers, keep, max_records, max_bytes, ..LogSpec::shared(name.clone(), partitions) }
        }
        Some(_) => {
            return Err(BusError::Directory(format!(
                "the file of {name} does not begin with its description; move it away"
            )));
        }
    };
    let mut log = Log::new(Arc::new(spec));
    log.recover(changes.map(|change| (partition_of(&change), change)));
    state.bytes += log.bytes();
    state.logs.insert(name.clone(), log);
    state.files.insert(name.clone(), file);
    Ok(())
}

pub(super) fn spec_change(spec: &LogSpec) -> Change {
    let LogSpec { partitions, writers, keep, max_records, max_bytes, .. } = *spec;
    Change::Spec { partitions, writers, keep, max_records, max_bytes }
}

fn partition_of(change: &Change) -> u32 {
    match change {
        Change::Spec { .. } => 0,
        Change::Base { partition, .. }
        | Change::Remembered { partition, .. }
        | Change::Record { partition, .. }
        | Change::Claim { partition, .. }
        | Change::Trim { partition, .. } => *partition,
    }
}

/// A batch of one log that is in its file, or could not be written.
struct Written {
    log: LogName,
    /// The partitions that it changes.
    places: BTreeSet<u32>,
    changes: Vec<Change>,
    finishes: Vec<Finish>,
    outcome: io::Result<()>,
}

struct Writer {
    shared: Arc<Shared>,
    directory: PathBuf,
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
            // The file system makes files durable together that were written before the first of them is synced.
            let written: Vec<Written> = batches.into_iter().map(|(log, batch)| self.write(log, batch)).collect();
            for written in written {
                self.conclude(written);
            }
        }
    }

    fn write(&mut self, log: LogName, batch: Vec<Queued>) -> Written {
        let mut finishes = Vec::with_capacity(batch.len());
        let mut changes = Vec::with_capacity(batch.len());
        let mut places = BTreeSet::new();
        for Queued { partition, change, finish, .. } in batch {
            finishes.push(finish);
            changes.push(change);
            places.insert(partition);
        }
        let outcome = self.append(&log, &changes);
        Written { log, places, changes, finishes, outcome }
    }

    /// Makes a batch durable, and tells so.
    fn conclude(&mut self, written: Written) {
        let Written { log, places, changes, finishes, outcome } = written;
        let log = &log;
        let synced = outcome.and_then(|()| self.files.get(log).map_or(Ok(()), LogFile::sync));
        let outcome = synced.map_err(|error| self.broke(log, &changes, &error));
        if outcome.is_ok() {
            let changes = changes.into_iter().map(|change| (partition_of(&change), change));
            self.shared.state().settle(log, changes);
        }
        for partition in places {
            self.shared.pump(&LogPartition { log: log.clone(), partition: Partition(partition) });
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
        // A file that could not be written is left alone: records behind a gap would be taken for damage.
        {
            let mut state = self.shared.state();
            if let Some(reason) = state.logs.get(log).and_then(|log| log.broken.clone()) {
                return Err(io::Error::other(reason));
            }
            self.files.extend(state.files.remove(log).map(|file| (log.clone(), file)));
        }
        let file = match self.files.entry(log.clone()) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(missing) => missing.insert(LogFile::open(&self.directory, log)?.0),
        };
        file.append(changes)
    }

    /// The log takes nothing any more: its file's content is unknown until it is opened again.
    fn broke(&self, log: &LogName, changes: &[Change], error: &io::Error) -> BusError {
        tracing::error!(%log, %error, "cannot write a log of the bus; reading its files again");
        let mut state = self.shared.state();
        let mut bytes = 0;
        if let Some(log) = state.logs.get_mut(log) {
            log.broken.get_or_insert(error.to_string());
            for change in changes {
                if let Change::Record { partition, record, .. } = change
                    && let Some(partition) = log.partitions.get_mut(*partition as usize)
                {
                    partition.settle(record.size() as u64);
                    bytes += record.size() as u64;
                }
            }
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        if let Some(broke) = &self.shared.broke {
            broke();
        }
        directory_error(error)
    }

    /// Rewrites a file that has mostly records that are not kept any more.
    fn tidy_up(&mut self, name: &LogName) -> io::Result<()> {
        let Some(file) = self.files.get_mut(name) else { return Ok(()) };
        let changes = {
            let state = self.shared.state();
            let Some(log) = state.logs.get(name) else { return Ok(()) };
            let kept = log.bytes();
            if !file.is_mostly_spare(kept, SPARE_BYTES) {
                return Ok(());
            }
            let mut changes = vec![spec_change(&log.spec)];
            log.partitions.iter().zip(0..).for_each(|(partition, number)| partition.image(number, &mut changes));
            changes
        };
        file.replace(&changes)
    }
}
