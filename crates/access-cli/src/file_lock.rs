//! One command at a time changes the files of a directory: two that read a file before either has written it would
//! lose the change of one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Keeps other commands from changing a file of users or keys until it is dropped. Readers need none: files are replaced
/// as a whole.
#[derive(Debug)]
pub(crate) struct FileLock {
    /// Locked. The file itself has another inode after each change.
    _directory: Option<File>,
}

/// The directory of a file cannot be locked.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock {} for the change: {source}", directory.display())]
pub(crate) struct FileLockError {
    directory: PathBuf,
    source: io::Error,
}

impl FileLock {
    /// Waits for the end of other commands that change a file in this file's directory. File systems without locks have
    /// none.
    pub(crate) fn acquire(file: &Path) -> Result<Self, FileLockError> {
        // The target of a link is replaced.
        let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or_else(|| Path::new(".")).to_owned();
        let locked = File::open(&directory).and_then(|opened| opened.lock().map(|()| opened));
        match locked {
            Ok(opened) => Ok(Self { _directory: Some(opened) }),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Self { _directory: None }),
            Err(source) => Err(FileLockError { directory, source }),
        }
    }
}
