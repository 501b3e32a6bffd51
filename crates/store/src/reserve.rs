//! The reserve: a file that only takes space, for the case that another program has filled the disk. When a write fails
//! for want of space, a part of the file is given back to the file system and the write is repeated. So a start works,
//! clients can fetch, and their deletes free space. New messages are refused from the first part on, until the file has
//! its full size again.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk::Disk;

pub(crate) const NAME: &str = "RESERVE";
/// Least that is given back at once, bytes.
const PORTION: u64 = 1024 * 1024;

/// The file and its length.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Bytes that it should have.
    wanted: u64,
    /// Bytes that it has.
    held: Mutex<u64>,
}

impl Reserve {
    /// The file that an earlier process has left.
    pub(crate) fn find(disk: &dyn Disk, wanted: u64) -> Self {
        let held = disk.open(NAME).and_then(|file| file.length()).unwrap_or(0);
        Self { wanted, held: Mutex::new(held) }
    }

    fn held(&self) -> MutexGuard<'_, u64> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are there and can be given back.
    pub(crate) fn bytes(&self) -> u64 {
        *self.held()
    }

    /// Bytes that it lacks.
    pub(crate) fn missing(&self) -> u64 {
        self.wanted.saturating_sub(*self.held())
    }

    /// Gives at least `bytes` back to the file system, but keeps `stays` bytes. Returns whether it gave any.
    pub(crate) fn release(&self, disk: &dyn Disk, bytes: u64, stays: u64) -> bool {
        let mut held = self.held();
        let spare = held.saturating_sub(stays);
        if spare == 0 {
            return false;
        }
        let left = *held - bytes.max(PORTION).min(spare);
        match disk.open(NAME).and_then(|file| file.set_length(left)) {
            Ok(()) => {
                *held = left;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot free the store's reserve");
                false
            }
        }
    }

    /// Extends the file to its full size. After a failure it has its old size.
    ///
    /// # Errors
    /// The error of the disk.
    pub(crate) fn fill(&self, disk: &dyn Disk) -> io::Result<()> {
        let mut held = self.held();
        if *held == self.wanted {
            return Ok(());
        }
        if self.wanted == 0 {
            disk.remove(NAME)?;
            *held = 0;
            return Ok(());
        }
        let file = match disk.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create_scratch(NAME)?,
            other => other?,
        };
        if *held > self.wanted {
            file.set_length(self.wanted)?;
        } else if let Err(error) = file.allocate(*held, self.wanted) {
            let _ = file.set_length(*held);
            return Err(error);
        }
        *held = self.wanted;
        Ok(())
    }
}
