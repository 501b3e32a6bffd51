//! A disk in memory that loses unsynced bytes, tears unfinished writes, and fails on request.
//!
//! Its seed determines all its decisions, so a run can be repeated.

mod files;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_random::SplitMix64;

/// A write reaches the disk in pieces of this size, each whole or not at all, bytes.
const SECTOR: usize = 512;

/// Failures that a simulated disk can be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The next writes fail with `EIO`; a part of the bytes may be written.
    Write,
    /// The next syncs of files fail with `EIO`. Their unsynced bytes are lost or not, and later syncs succeed all the
    /// same.
    Sync,
    /// The next reads fail with `EIO`.
    Read,
    /// The next files are not created, as the process has too many (`EMFILE`).
    Create,
    /// The next files are not opened (`EMFILE`).
    Open,
    /// The next files are not removed: `EIO`.
    Remove,
    /// The next writes write a part of the bytes and then fail with `ENOSPC`.
    ShortWrite,
    /// The next renames fail with `EIO`.
    Rename,
    /// The next syncs of the directory fail with `EIO`.
    SyncDirectory,
    /// The next syncs of files fail because another process owns the files. Their unsynced bytes are lost or not.
    Fence,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    random: SplitMix64,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    /// Names as processes see them, and as they are after power loss.
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names that are not synced.
    changes: Vec<Change>,
    failures: Vec<(Failure, u32)>,
    capacity: Option<u64>,
    read_only: bool,
    /// Counts every write, sync and change of a name.
    operations: u64,
    power_loss_at: Option<u64>,
    powerless: bool,
    /// Incremented at each start: files and locks of an earlier life are invalid.
    life: u64,
    locked: bool,
}

#[derive(Debug, Default)]
struct Content {
    /// As processes see it.
    current: Vec<u8>,
    /// Bytes that take room: those beyond were never written.
    allocated: usize,
    /// As it is after power loss, when none of the writes below reached the disk.
    durable: Vec<u8>,
    unsynced: Vec<Edit>,
}

#[derive(Clone, Debug)]
enum Edit {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// Keeps the series of a disk apart from that of a test with the same seed.
const SALT: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Debug)]
enum Change {
    Link { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Unlink { name: String },
}

impl SimulatedDisk {
    /// An empty disk without limits or failures.
    pub fn new(seed: u64) -> Self {
        let state = State { random: SplitMix64::new(seed ^ SALT), ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the next `times` operations of a kind fail.
    pub fn fail(&self, failure: Failure, times: u32) {
        self.state().failures.push((failure, times));
    }

    /// Forgets all failures that were asked for.
    pub fn heal(&self) {
        let mut state = self.state();
        state.failures.clear();
        state.capacity = None;
        state.read_only = false;
    }

    /// Lets the disk hold no more than this, bytes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Whether every change is refused.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// Writes, syncs and changes of names so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Cuts the power after this many further operations, in the middle of the next one.
    pub fn lose_power_after(&self, operations: u64) {
        let mut state = self.state();
        state.power_loss_at = Some(state.operations + operations);
    }

    /// Takes back [`Self::lose_power_after`].
    pub fn keep_power(&self) {
        self.state().power_loss_at = None;
    }

    /// Cuts the power now: unsynced bytes are lost, wholly or in part. All operations fail until [`Self::restart`].
    pub fn lose_power(&self) {
        self.state().lose_power();
    }

    /// Whether the power is cut.
    pub fn is_powerless(&self) -> bool {
        self.state().powerless
    }

    /// Ends all processes that use the disk and turns the power on. Written bytes stay, synced or not, unless the power
    /// was lost.
    pub fn restart(&self) {
        let mut state = self.state();
        state.powerless = false;
        state.power_loss_at = None;
        state.locked = false;
        state.life += 1;
    }

    /// Turns one bit of a file around. Says whether there is such a bit.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> bool {
        let mut state = self.state();
        let Some(number) = state.names.get(name).copied() else {
            return false;
        };
        let Some(content) = state.files.get_mut(&number) else {
            return false;
        };
        let offset = offset as usize;
        let found = content.current.get_mut(offset).map(|byte| *byte ^= 1 << (bit & 7)).is_some();
        if let Some(byte) = content.durable.get_mut(offset) {
            *byte ^= 1 << (bit & 7);
        }
        found
    }

    /// The bytes of a file as processes see them.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let number = state.names.get(name)?;
        state.files.get(number).map(|content| content.current.clone())
    }

    /// Puts a file there, synced.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let number = state.next_file;
        state.next_file += 1;
        let (current, allocated) = (bytes.to_vec(), bytes.len());
        let content = Content { current, allocated, durable: bytes.to_vec(), unsynced: Vec::new() };
        state.files.insert(number, content);
        state.names.insert(name.to_owned(), number);
        state.durable_names.insert(name.to_owned(), number);
    }
}

impl State {
    /// The next random number.
    fn random(&mut self) -> u64 {
        self.random.number()
    }

    fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.random() % limit }
    }

    /// Counts a changing operation; fails when the power is off or goes off.
    fn change(&mut self) -> io::Result<()> {
        self.power()?;
        if self.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if self.power_loss_at.is_some_and(|at| self.operations >= at) {
            self.lose_power();
            return self.power();
        }
        self.operations += 1;
        Ok(())
    }

    /// Whether the power goes off in the next change.
    fn power_ends_now(&self) -> bool {
        !self.powerless && !self.read_only && self.power_loss_at.is_some_and(|at| self.operations >= at)
    }

    fn power(&self) -> io::Result<()> {
        if self.powerless { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn fails(&mut self, failure: Failure) -> bool {
        let Some(index) = self.failures.iter().position(|(kind, times)| *kind == failure && *times > 0) else {
            return false;
        };
        self.failures[index].1 -= 1;
        if self.failures[index].1 == 0 {
            self.failures.remove(index);
        }
        true
    }

    fn used(&self) -> u64 {
        self.names.values().filter_map(|number| self.files.get(number)).map(|content| content.allocated as u64).sum()
    }

    /// Decides which of the unsynced bytes reached the disk.
    fn lose_power(&mut self) {
        if self.powerless {
            return;
        }
        self.powerless = true;
        let changes = std::mem::take(&mut self.changes);
        // Mostly a file system keeps the order of its changes, sometimes it does not.
        let ordered = self.below(2) == 0;
        let kept = self.below(changes.len() as u64 + 1) as usize;
        for (index, change) in changes.into_iter().enumerate() {
            let survives = if ordered { index < kept } else { self.below(2) == 0 };
            if survives {
                apply(&mut self.durable_names, change);
            }
        }
        let numbers: Vec<u64> = self.files.keys().copied().collect();
        for number in numbers {
            let Some(mut content) = self.files.remove(&number) else {
                continue;
            };
            self.forget(&mut content);
            self.files.insert(number, content);
        }
        self.names = self.durable_names.clone();
        let linked: Vec<u64> = self.names.values().copied().collect();
        self.files.retain(|number, _| linked.contains(number));
    }

    /// Decides for each sector that was not synced whether it reached the disk.
    fn forget(&mut self, content: &mut Content) {
        let all = self.below(4) == 0;
        let mut durable = std::mem::take(&mut content.durable);
        for edit in std::mem::take(&mut content.unsynced) {
            match edit {
                Edit::Length(length) if all || self.below(2) == 0 => durable.resize(length, 0),
                Edit::Length(_) => {}
                Edit::Write { offset, bytes } => {
                    let mut position = offset;
                    while position < offset + bytes.len() {
                        let end = ((position / SECTOR + 1) * SECTOR).min(offset + bytes.len());
                        if all || self.below(2) == 0 {
                            overwrite(&mut durable, position, &bytes[position - offset..end - offset]);
                        }
                        position = end;
                    }
                }
            }
        }
        content.current.clone_from(&durable);
        content.allocated = content.allocated.min(durable.len());
        content.durable = durable;
    }
}

fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

fn apply(names: &mut BTreeMap<String, u64>, change: Change) {
    match change {
        Change::Link { name, file } => {
            names.insert(name, file);
        }
        Change::Rename { from, to, file } => {
            names.retain(|name, number| *name != from || *number != file);
            names.insert(to, file);
        }
        Change::Unlink { name } => {
            names.remove(&name);
        }
    }
}
