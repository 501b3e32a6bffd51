//! Commands on a closed store: check it, measure it, export and import it. A backup also reads a store that is in use.
//!
//! They never write into the store that they read.

mod aside;
mod backup;
mod check;
mod ending;
mod export;
mod import;
mod salvage;
mod stats;

use std::sync::Arc;

pub use aside::import_into;
pub use backup::{BackupError, BackupReport, backup};
pub use check::{CheckReport, FileCheck, check};
pub use export::{Describe, ExportReport, export};
pub use import::{Completeness, ImportError, ImportReport, import};
pub use salvage::Skipped;
pub use stats::{EntryKind, KindOf, KindStats, Row, StatsReport, stats};

use crate::catalog::{Catalog, Shared};
use crate::disk::{Disk, LockGuard};
use crate::manifest::{self, Manifest};
use crate::recovery::{self, Found};
use crate::reserve;
use crate::{LockError, OpenError, ReadError, Settings, keep_all};

/// Why a store could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It is in use, or its lock cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is no store.
    #[error("there is no store in this directory; name the directory with its MANIFEST")]
    NoStore,
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
}

fn lock(disk: &dyn Disk) -> Result<LockGuard, InspectError> {
    let locked = disk.lock_for_reading().map_err(|error| match error {
        LockError::Held { holder } => OpenError::Locked { holder },
        LockError::Io(error) => ReadError::reading("LOCK", error).into(),
    });
    Ok(locked?)
}

fn names(disk: &dyn Disk) -> Result<Vec<String>, ReadError> {
    let mut names = disk.list().map_err(|error| ReadError::reading("the directory", error))?;
    names.sort_unstable();
    Ok(names)
}

/// Reads the files that the manifest names, without changing any.
fn find(disk: &dyn Disk) -> Result<Found, InspectError> {
    let Some(manifest) = Manifest::load(disk)? else {
        recovery::require_empty(&names(disk)?)?;
        return Err(InspectError::NoStore);
    };
    Ok(recovery::read(disk, manifest)?)
}

/// The whole store, ready to be visited. The possibly unsynced end of the journal counts, as when the store is opened.
fn at_rest(disk: Arc<dyn Disk>, found: &Found) -> Shared {
    // Sorting through files is off, since it would write.
    let settings = Settings { merge_memory_bytes: u64::MAX, ..Settings::default() };
    if let Some(last) = found.segments.last() {
        last.set_end(last.end() + found.journal.unsynced.len() as u64);
    }
    let catalog = Catalog {
        table: found.table.clone(),
        merged: found.manifest.merged,
        segments: found.segments.clone(),
        ..Catalog::default()
    };
    Shared::new(disk, settings, keep_all(), catalog)
}

/// The directory of a file system's repair, at its root.
const LOST_AND_FOUND: &str = "lost+found";

/// A file of a directory that belongs to neither a store nor its file system, nor to a backup or an import that was
/// interrupted, and does not belong to the files beside a store.
fn foreign<'a>(names: &'a [String], companions: &[&str]) -> Option<&'a String> {
    let known = [aside::LOCK, LOST_AND_FOUND, backup::MARK, backup::MARK_ASIDE, aside::ASIDE];
    names.iter().find(|name| {
        let name = name.as_str();
        !is_ours(name) && !known.contains(&name) && !companions.contains(&name)
    })
}

/// Whether a file of this name is one of a store's.
pub fn is_ours(name: &str) -> bool {
    [manifest::NAME, manifest::ASIDE, reserve::NAME].contains(&name) || recovery::number_of(name).is_some()
}

/// Whether a file of this name holds data of a store. Temporary and preallocated files do not.
pub fn is_content(name: &str) -> bool {
    is_ours(name)
        && name != manifest::ASIDE
        && name != reserve::NAME
        && !name.starts_with("spare-")
        && !name.starts_with("run-")
}
