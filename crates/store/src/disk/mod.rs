//! The disk as the store sees it: files by name in one directory. The store's code is the same over the real one and
//! over the simulated one that forgets, tears and fails.

mod real;
mod simulated;

use std::io;
use std::sync::Arc;

pub use real::RealDisk;
pub use simulated::{Failure, SimulatedDisk};

/// Files by name in one directory. Names have no slash.
pub trait Disk: Send + Sync {
    /// Makes an empty file, or empties the one that is there. It survives power loss only after
    /// [`Disk::sync_directory`].
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that is there, for reading and, where that is allowed, for writing.
    ///
    /// # Errors
    /// `NotFound` when there is none; what else the system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, in the place of the file that had it.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// As [`Disk::rename`], for a file whose room is wanted and nothing of what it holds: it may be anything from then
    /// on.
    ///
    /// # Errors
    /// What the system says.
    fn recycle(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)
    }

    /// As [`Disk::create`], for a file that nobody needs after a restart.
    ///
    /// # Errors
    /// What the system says.
    fn create_scratch(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.create(name)
    }

    /// Removes a name. Those who have the file open go on reading it.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes names that were created, changed and removed survive power loss.
    ///
    /// # Errors
    /// What the system says.
    fn sync_directory(&self) -> io::Result<()>;

    /// Free space for this process, bytes.
    ///
    /// # Errors
    /// What the system says.
    fn free_space(&self) -> io::Result<u64>;

    /// Keeps other processes away until the guard is dropped.
    ///
    /// # Errors
    /// When another process was first, or the file cannot be written.
    fn lock(&self) -> Result<LockGuard, LockError>;

    /// As [`Disk::lock`], but for reading alone: where nothing can be written, nobody has to be kept away.
    ///
    /// # Errors
    /// When another process was first.
    fn lock_for_reading(&self) -> Result<LockGuard, LockError>;

    /// A number that nobody can foresee.
    fn random(&self) -> u64;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at a place.
    ///
    /// # Errors
    /// What the system says; a part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Reads as many bytes as fit, from a place.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before; what else the system says.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes all that was written survive power loss (`fdatasync`). After a failure nobody knows what did.
    ///
    /// # Errors
    /// What the system says.
    fn sync_data(&self) -> io::Result<()>;

    /// Bytes of the file.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<u64>;

    /// Makes the file this long; new bytes are zero.
    ///
    /// # Errors
    /// What the system says.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes the file this long so that the new bytes, which are zero, take their room already.
    ///
    /// # Errors
    /// What the system says.
    fn allocate(&self, from: u64, length: u64) -> io::Result<()> {
        write_zeros(self, from, length)
    }
}

/// Bytes written at once to allocate a file.
const ZEROS: usize = 1024 * 1024;

/// Writes zeros from one place to another.
pub(crate) fn write_zeros(file: &(impl DiskFile + ?Sized), from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS];
    let mut position = from;
    while position < to {
        let portion = zeros.len().min(usize::try_from(to - position).unwrap_or(usize::MAX));
        file.write_at(&zeros[..portion], position)?;
        position += portion as u64;
    }
    Ok(())
}

/// Holds a lock until it is dropped.
pub type LockGuard = Box<dyn Send + Sync>;

/// Why a lock was not given.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("another process holds the lock")]
    Held {
        /// The process that says so in the lock file.
        holder: Option<u32>,
    },
    /// The lock file cannot be written.
    #[error("the lock file cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Reads a part of a file into memory.
///
/// # Errors
/// What the system says, also when there is no memory for it.
pub(crate) fn read_part(file: &dyn DiskFile, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_part_into(file, offset, length, &mut bytes)?;
    Ok(bytes)
}

/// As [`read_part`], into memory that is there.
pub(crate) fn read_part_into(file: &dyn DiskFile, offset: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    bytes.clear();
    bytes.try_reserve(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    bytes.resize(length, 0);
    file.read_at(bytes, offset)
}

/// Whether an error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
