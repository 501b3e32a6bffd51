//! The disk interface of the store: files by name in one directory. The real disk and the simulated one, which loses,
//! tears and fails, run the same code of the store.

mod real;
mod simulated;

use std::io;
use std::sync::Arc;

pub use real::RealDisk;
pub use simulated::{Failure, SimulatedDisk};

/// Files by name in one directory. Names have no slash.
pub trait Disk: Send + Sync {
    /// Creates an empty file, or truncates an existing one. It survives power loss only after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// An error of the operating system.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that is there, for reading and, where that is allowed, for writing.
    ///
    /// # Errors
    /// `NotFound` when the file does not exist; any other error of the operating system.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, in the place of the file that had it.
    ///
    /// # Errors
    /// An error of the operating system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// As [`Disk::rename`], for a file whose space is reused: its content is undefined afterwards.
    ///
    /// # Errors
    /// An error of the operating system.
    fn recycle(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)
    }

    /// As [`Disk::create`], for a file that is not needed after a restart.
    ///
    /// # Errors
    /// An error of the operating system.
    fn create_scratch(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.create(name)
    }

    /// Removes a name. Open handles of the file can still read it.
    ///
    /// # Errors
    /// An error of the operating system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files.
    ///
    /// # Errors
    /// An error of the operating system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes names that were created, changed and removed survive power loss.
    ///
    /// # Errors
    /// An error of the operating system.
    fn sync_directory(&self) -> io::Result<()>;

    /// Free space for this process, bytes.
    ///
    /// # Errors
    /// An error of the operating system.
    fn free_space(&self) -> io::Result<u64>;

    /// Keeps other processes away until the guard is dropped.
    ///
    /// # Errors
    /// When another process was first, or the file cannot be written.
    fn lock(&self) -> Result<LockGuard, LockError>;

    /// As [`Disk::lock`], but for reading only. Without write access to the directory no lock is needed.
    ///
    /// # Errors
    /// When another process was first.
    fn lock_for_reading(&self) -> Result<LockGuard, LockError>;

    /// An unpredictable number.
    fn random(&self) -> u64;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at a place.
    ///
    /// # Errors
    /// An error of the operating system; a part may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Reads as many bytes as fit, from a place.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before; any other error of the operating system.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes all written bytes survive power loss (`fdatasync`). After a failure it is unknown which bytes do.
    ///
    /// # Errors
    /// An error of the operating system.
    fn sync_data(&self) -> io::Result<()>;

    /// Bytes of the file.
    ///
    /// # Errors
    /// An error of the operating system.
    fn length(&self) -> io::Result<u64>;

    /// Makes the file this long; new bytes are zero.
    ///
    /// # Errors
    /// An error of the operating system.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Makes the file this long so that the new bytes, which are zero, take their room already.
    ///
    /// # Errors
    /// An error of the operating system.
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
/// An error of the operating system, or `OutOfMemory`.
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
