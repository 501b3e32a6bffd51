//! Locks of files that several processes of the hub write.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

/// How long a lock of another process is awaited: it holds one for a batch. Beyond it the sink is away.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the lock is tried meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(5);
/// How often a file is opened that other processes replace meanwhile.
const OPENINGS: usize = 8;

/// Locks a file. Returns whether it is locked: without `needed`, a file is also written where the file system has no locks.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] when another process does not unlock it in time; another one when the file system has no locks.
#[expect(clippy::disallowed_methods, reason = "a lock of another process gives no notice of its end")]
pub(super) fn lock(file: &File, needed: bool) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match outcome(file.try_lock(), needed) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                thread::sleep(TRY_EVERY);
            }
            done => return done,
        }
    }
}

/// Locks a file that another process keeps for as long as it runs: it is not awaited. `needed` as in [`lock`].
///
/// # Errors
/// As [`lock`].
pub(super) fn lock_at_once(file: &File, needed: bool) -> io::Result<bool> {
    outcome(file.try_lock(), needed)
}

fn outcome(tried: Result<(), TryLockError>, needed: bool) -> io::Result<bool> {
    static WARNED: Once = Once::new();
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(ErrorKind::WouldBlock, "another process writes it")),
        Err(TryLockError::Error(error)) if needed => {
            let said = format!("its file system has no locks, which `exactly_once` needs: {error}");
            Err(io::Error::new(error.kind(), said))
        }
        Err(TryLockError::Error(error)) => {
            WARNED.call_once(|| {
                tracing::warn!(%error, "a file system has no locks: only one process may write its files of sinks");
            });
            Ok(false)
        }
    }
}

/// Opens a file and locks it by `lock`, which says whether it did. Another process may have renamed, replaced or deleted the
/// file before: then it is opened again.
///
/// # Errors
/// When it cannot be opened or locked, or is replaced again and again.
pub(super) fn open_locked(
    options: &OpenOptions,
    path: &Path,
    lock: &mut dyn FnMut(&File) -> io::Result<bool>,
) -> io::Result<(File, bool)> {
    for _ in 0..OPENINGS {
        let file = options.open(path)?;
        let is_locked = lock(&file)?;
        if is_at(path, file.metadata()?.ino())? {
            return Ok((file, is_locked));
        }
    }
    Err(io::Error::new(ErrorKind::WouldBlock, "other processes replace it again and again"))
}

/// Whether a path leads to the file with this inode.
pub(super) fn is_at(path: &Path, inode: u64) -> io::Result<bool> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        found => Ok(found?.ino() == inode),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_written_unless_once() {
        let none = || Err(TryLockError::Error(ErrorKind::Unsupported.into()));
        assert!(!outcome(none(), false).unwrap());
        assert!(outcome(none(), true).unwrap_err().to_string().contains("`exactly_once` needs"));
        assert!(outcome(Ok(()), false).unwrap());
        let busy = outcome(Err(TryLockError::WouldBlock), false).unwrap_err();
        assert_eq!((busy.kind(), busy.to_string().as_str()), (ErrorKind::WouldBlock, "another process writes it"));
    }

    #[test]
    fn a_file_that_is_replaced_while_it_is_locked_is_opened_again() {
        let path = std::env::temp_dir().join(format!("tidegate-lock-{}", std::process::id()));
        let aside = path.with_extension("aside");
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let mut left = 2;
        let (file, _) = open_locked(&options, &path, &mut |_| {
            if left > 0 {
                left -= 1;
                fs::rename(&path, &aside)?;
            }
            Ok(true)
        })
        .unwrap();
        assert_eq!((left, file.metadata().unwrap().ino()), (0, fs::metadata(&path).unwrap().ino()));
        let endless = open_locked(&options, &path, &mut |_| fs::rename(&path, &aside).map(|()| true));
        assert_eq!(endless.unwrap_err().kind(), ErrorKind::WouldBlock);
        fs::remove_file(&aside).unwrap();
    }
}
