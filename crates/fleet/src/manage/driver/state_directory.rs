//! The directory of a fleet's journal, history and status, and its lock.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{DriverError, io_at};

const LOCK_FILE: &str = "manager.lock";

/// A fleet's state directory, locked: no other manager runs this fleet.
#[derive(Debug)]
pub struct StateDirectory {
    pub(super) path: PathBuf,
    pub(super) lock: File,
}

impl StateDirectory {
    /// Makes the directory if it does not exist, and locks it. The lock ends with the process.
    ///
    /// # Errors
    /// When another manager holds the lock, or the directory or its lock file cannot be made.
    pub fn lock(path: &Path) -> Result<Self, DriverError> {
        fs::create_dir_all(path).map_err(io_at("make", path))?;
        let lock = lock(path)?;
        Ok(Self { path: path.to_owned(), lock })
    }
}

/// One manager per fleet: the lock ends with its process.
fn lock(directory: &Path) -> Result<File, DriverError> {
    let path = directory.join(LOCK_FILE);
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io_at("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(DriverError::Running(directory.to_owned())),
        Err(fs::TryLockError::Error(source)) => Err(io_at("lock", &path)(source)),
    }
}

/// Whether a manager runs the fleet in a state directory.
pub fn is_running(directory: &Path) -> bool {
    let file = File::options().write(true).open(directory.join(LOCK_FILE));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}
