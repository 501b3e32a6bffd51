//! An atomic import into a directory. It writes into a directory within, and moves the files up when they are complete.
//! The manifest, which makes the files a store, is moved last.

use std::fs;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use super::import::{Completeness, ImportError, ImportReport, import};
use crate::disk::{Disk, LockError, RealDisk};
use crate::{OpenError, manifest};

/// The directory within.
pub(super) const ASIDE: &str = "import-unfinished";
/// The file that keeps other processes away.
pub(super) const LOCK: &str = "LOCK";

/// Reads lines as [`export`](super::export) writes them into a directory, which is made if it is not there. When that
/// fails, the directory is as it was. `companions` are files and directories that may be beside the store; they stay.
///
/// # Errors
/// As [`import`], and when the directory cannot be made, or another process uses it.
pub fn import_into(
    directory: &Path,
    input: &mut dyn BufRead,
    completeness: Completeness,
    companions: &[&str],
) -> Result<ImportReport, ImportError> {
    let failed = |source| ImportError::Directory { directory: directory.to_owned(), source };
    let is_new = !directory.exists();
    let disk = RealDisk::create(directory).map_err(failed)?;
    let had_lock = directory.join(LOCK).exists();
    let lock = disk.lock().map_err(|error| match error {
        LockError::Held { holder } => ImportError::Open(OpenError::Locked { holder }),
        LockError::Io(source) => failed(source),
    })?;
    let result = import_aside(&disk, input, completeness, companions);
    if result.is_err() {
        // A leftover directory does no harm: an import begins by removing it.
        let _ = remove(&directory.join(ASIDE));
        if !had_lock {
            let _ = fs::remove_file(directory.join(LOCK));
        }
        if is_new {
            let _ = fs::remove_dir(directory);
        }
    }
    drop(lock);
    result
}

fn import_aside(
    disk: &RealDisk,
    input: &mut dyn BufRead,
    completeness: Completeness,
    companions: &[&str],
) -> Result<ImportReport, ImportError> {
    let (directory, aside) = (disk.path(), disk.path().join(ASIDE));
    let failed = |source| ImportError::Directory { directory: directory.to_owned(), source };
    let names = disk.list().map_err(failed)?;
    if names.iter().any(|name| super::is_ours(name)) {
        return Err(ImportError::NotEmpty);
    }
    if let Some(file) = super::foreign(&names, companions) {
        return Err(ImportError::Foreign { file: file.clone() });
    }
    remove(&aside).map_err(failed)?;
    let inner = RealDisk::create(&aside).map_err(failed)?;
    let report = import(Arc::new(inner), input, completeness)?;
    move_up(disk, &aside).map_err(failed)?;
    Ok(report)
}

/// Moves the files of a complete store up. A crash in between leaves no manifest, so no store.
fn move_up(disk: &RealDisk, aside: &Path) -> io::Result<()> {
    let mut names: Vec<String> = RealDisk::existing(aside)?.list()?;
    names.retain(|name| name != LOCK);
    names.sort_by_key(|name| name == manifest::NAME);
    for name in names {
        if name == manifest::NAME {
            disk.sync_directory()?;
        }
        fs::rename(aside.join(&name), disk.path().join(&name))?;
    }
    remove(aside)?;
    disk.sync_directory()
}

/// Removes the directory within, and the files that an import makes there.
fn remove(aside: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(aside) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(aside)
}
