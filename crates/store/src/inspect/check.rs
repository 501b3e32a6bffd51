//! Reads everything and says of each file whether it is as it was written.

use std::sync::Arc;

use super::{InspectError, is_ours, lock, names};
use crate::ReadError;
use crate::disk::Disk;
use crate::journal::segment::{self, Tail};
use crate::manifest::{self, Manifest};
use crate::recovery::{self, open_segment, open_table, scan};
use crate::table::{self, Cursor};

/// The result for one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCheck {
    /// Its name in the store's directory.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Batches of a journal file, entries of a table.
    pub entries: u64,
    /// A remark that is not damage.
    pub note: Option<String>,
    /// Each damage.
    pub problems: Vec<String>,
}

/// The results for all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// File by file.
    pub files: Vec<FileCheck>,
}

impl CheckReport {
    /// How much damage there is, over all files.
    pub fn problems(&self) -> usize {
        self.files.iter().map(|file| file.problems.len()).sum()
    }
}

/// Checks every file of a store.
///
/// # Errors
/// When the store is in use, does not exist, or its directory cannot be read. Damage is not an error but part of the
/// report.
pub fn check(disk: &Arc<dyn Disk>) -> Result<CheckReport, InspectError> {
    let _lock = lock(&**disk)?;
    let names = names(&**disk)?;
    let mut report = CheckReport::default();
    let mut file = FileCheck { name: manifest::NAME.to_owned(), ..FileCheck::default() };
    let manifest = match Manifest::load(&**disk) {
        Ok(Some(manifest)) => Some(manifest),
        Ok(None) => {
            if recovery::require_empty(&names).is_ok() {
                return Err(InspectError::NoStore);
            }
            file.problems.push(ReadError::Missing { file: manifest::NAME.to_owned() }.to_string());
            None
        }
        Err(error) => {
            file.problems.push(error.to_string());
            None
        }
    };
    file.bytes = length(&**disk, manifest::NAME);
    report.files.push(file);
    let Some(manifest) = manifest else {
        return Ok(report);
    };
    if let Some(generation) = manifest.table {
        report.files.push(check_table(&**disk, generation, manifest.merged));
    }
    check_journal(&**disk, &manifest, &mut report);
    for name in names.iter().filter(|name| is_ours(name)) {
        if !report.files.iter().any(|file| file.name == *name) {
            let note = "not in use: kept for later, or removed when the store is opened".to_owned();
            let bytes = length(&**disk, name);
            report.files.push(FileCheck { name: name.clone(), bytes, note: Some(note), ..FileCheck::default() });
        }
    }
    Ok(report)
}

fn length(disk: &dyn Disk, name: &str) -> u64 {
    disk.open(name).and_then(|file| file.length()).unwrap_or(0)
}

pub(super) fn check_table(disk: &dyn Disk, generation: u64, merged: u64) -> FileCheck {
    let name = table::name(generation);
    let mut file = FileCheck { bytes: length(disk, &name), name, ..FileCheck::default() };
    let table = match open_table(disk, generation, merged) {
        Ok(table) => Arc::new(table),
        Err(error) => {
            file.problems.push(error.to_string());
            return file;
        }
    };
    let mut cursor = Cursor::before(Arc::clone(&table));
    while cursor.advance_or_skip(&mut |error| file.problems.push(error.to_string())) {
        file.entries += 1;
    }
    if file.problems.is_empty() && file.entries != table.entries {
        file.problems.push(format!("{} entries were found, the footer says {}", file.entries, table.entries));
    }
    file
}

fn check_journal(disk: &dyn Disk, manifest: &Manifest, report: &mut CheckReport) {
    let mut next = manifest.merged;
    for (index, (id, first)) in manifest.segments.iter().enumerate() {
        let name = segment::name(*id);
        let mut file = FileCheck { bytes: length(disk, &name), name, ..FileCheck::default() };
        if *first != next {
            file.problems.push(format!("it begins with frame {first}, but frame {next} is the next"));
        }
        let limit = manifest.segments.get(index + 1).map(|(_, first)| *first);
        match check_segment(disk, *id, *first, limit, &mut file) {
            Ok(end) => next = limit.unwrap_or(end),
            Err(error) => {
                next = limit.unwrap_or(*first);
                file.problems.push(error.to_string());
            }
        }
        report.files.push(file);
    }
}

/// Says which frame would come next.
fn check_segment(
    disk: &dyn Disk,
    id: u64,
    first: u64,
    limit: Option<u64>,
    file: &mut FileCheck,
) -> Result<u64, ReadError> {
    let segment = open_segment(disk, id, first)?;
    let scanned = scan(&segment, limit)?;
    file.entries = scanned.frames.len() as u64;
    let at = segment::FIRST_FRAME + scanned.end as u64;
    if let Some(limit) = limit {
        // Bytes after the valid frames have no use.
        if scanned.next < limit {
            let text = format!("frame {} is broken, but frames up to {limit} were written", scanned.next);
            return Err(ReadError::damaged(&file.name, at, text));
        }
        return Ok(scanned.next);
    }
    let Tail { bytes, durable, work, .. } = segment::tail(&scanned.bytes, scanned.end, scanned.next, segment.salt);
    if durable > scanned.next {
        let text = format!("frame {} is broken, but all below {durable} were written", scanned.next);
        return Err(ReadError::damaged(&file.name, at, text));
    }
    if bytes > 0 {
        file.note = Some(format!("{bytes} bytes at byte {at} were never committed"));
    }
    if work.gave_up {
        let text = "too much behind the last frame looks like frames, as it may in files of earlier versions: not all was tried";
        file.note = Some(text.to_owned());
    }
    Ok(scanned.next)
}
