//! A copy of a store that is consistent while a broker writes it. The copy is a data directory.
//!
//! All batches have one order, so a part of the journal up to any frame, with the table before it, is a state that the
//! store has had. A table and a closed journal file never change. So a copy reads the manifest, holds the table open,
//! reads the frames of each journal file, and takes the manifest again if files have gone in between.
//!
//! The second copy into the same directory writes only new content. Until its manifest is written, the earlier copy
//! stays whole: files keep their content or grow.

use std::io;
use std::sync::Arc;

use super::check::check_table;
use super::{InspectError, foreign, is_ours, names};
use crate::disk::{Disk, DiskFile, LockGuard, read_part};
use crate::journal::segment::{self, FIRST_FRAME};
use crate::manifest::{self, Manifest};
use crate::recovery::{self, open_segment, scan};
use crate::table;
use crate::{LockError, ReadError};

/// The file that marks a directory as a backup. It names the store and the manifests of the backup.
pub(super) const MARK: &str = "BACKUP";
/// Its name while it is written.
pub(super) const MARK_ASIDE: &str = "BACKUP.new";
/// Longest mark that is read, bytes.
const MAX_MARK_BYTES: u64 = 64 * 1024;
/// How often the manifest is taken again because its files have gone. Files go when a merge ends, seconds apart.
const MAX_ROUNDS: usize = 16;
/// Bytes of a file that are copied at once.
const PORTION: u64 = 1024 * 1024;

/// The work of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Files that were written.
    pub copied_files: u64,
    /// Bytes of these files.
    pub copied_bytes: u64,
    /// Files that were there already, with the same content.
    pub kept_files: u64,
    /// Bytes of these files.
    pub kept_bytes: u64,
    /// Files of the earlier backup that were removed.
    pub removed_files: u64,
}

/// Why there is no new backup. An earlier one in the directory is as it was.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store could not be read.
    #[error(transparent)]
    Source(#[from] InspectError),
    /// Another process uses the directory of the backup.
    #[error("the directory of the backup is in use by another process; wait until it has ended, or take another one")]
    InUse,
    /// The directory has a store that is no backup, or a broker has used the backup since.
    #[error("the directory of the backup has a store that was not written by a backup; give an empty directory")]
    NotABackup,
    /// The directory has files of another program.
    #[error("the directory of the backup has other files, such as {file}; give an empty directory")]
    Foreign {
        /// The name of one of them.
        file: String,
    },
    /// The backup is one of another store.
    #[error("the directory has a backup of {origin}; give an empty directory, or one of this store")]
    OtherStore {
        /// The store that it is a backup of.
        origin: String,
    },
    /// Files of the store went too often while they were read.
    #[error("the store's files changed {MAX_ROUNDS} times while they were read; try again when less is written")]
    Changes,
    /// A file of the backup could not be written or read.
    #[error("cannot write {file} of the backup: {source}")]
    Target {
        /// The file's name in the directory of the backup.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl BackupReport {
    fn copy(&mut self, bytes: u64) {
        self.copied_files += 1;
        self.copied_bytes += bytes;
    }

    fn keep(&mut self, bytes: u64) {
        self.kept_files += 1;
        self.kept_bytes += bytes;
    }
}

impl BackupError {
    fn target(file: &str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Target { file: file.to_owned(), source }
    }
}

impl From<ReadError> for BackupError {
    fn from(error: ReadError) -> Self {
        Self::Source(error.into())
    }
}

/// Copies a store, which may be in use, into another directory: everything committed before the call, and possibly some
/// later commits. `origin` names the store, so that a backup of another one is not replaced.
/// `companions` are files beside the store that are copied as they are, if they are there.
///
/// # Errors
/// When the store cannot be read, when the directory has something else than an earlier backup of this store, or when
/// it cannot be written. The earlier backup is then as it was.
pub fn backup(
    source: &dyn Disk,
    target: &dyn Disk,
    origin: &str,
    companions: &[&str],
) -> Result<BackupReport, BackupError> {
    // Before the lock, which is a file.
    let there = names(target)?;
    if let Some(file) = foreign(&there, &[]).filter(|_| !there.iter().any(|name| name == MARK || is_ours(name))) {
        return Err(BackupError::Foreign { file: file.clone() });
    }
    let _lock = lock(target)?;
    let earlier = earlier_backup(target, origin)?;
    let mut copy = Copy { source, target, report: BackupReport::default() };
    let manifest = copy.store()?;
    // After the store: a companion has what the keys of the store refer to before they do, and only grows.
    for name in companions {
        copy.companion(name)?;
    }
    let text = manifest.encode();
    let mark = |manifests: &[u32]| write_mark(target, origin, manifests);
    // Both, since the process may end on either side of the next line.
    let checksums: Vec<u32> = earlier.into_iter().chain([crc32c::crc32c(text.as_bytes())]).collect();
    mark(&checksums)?;
    manifest.save(target).map_err(|error| BackupError::Source(error.into()))?;
    copy.remove_others(&manifest, companions)?;
    Ok(copy.report)
}

fn lock(target: &dyn Disk) -> Result<LockGuard, BackupError> {
    target.lock().map_err(|error| match error {
        LockError::Held { .. } => BackupError::InUse,
        LockError::Io(error) => BackupError::target("LOCK")(error),
    })
}

/// The checksum of the manifest of the backup that is in the directory, if there is one.
fn earlier_backup(target: &dyn Disk, origin: &str) -> Result<Option<u32>, BackupError> {
    let there = names(target)?;
    let manifest = read_whole(target, manifest::NAME, manifest::MAX_BYTES)?;
    let Some(mark) = read_whole(target, MARK, MAX_MARK_BYTES)? else {
        if there.iter().any(|name| is_ours(name)) {
            return Err(BackupError::NotABackup);
        }
        return start(target, origin);
    };
    let mark = String::from_utf8_lossy(&mark).into_owned();
    let of = mark.lines().find_map(|line| line.strip_prefix("of ")).unwrap_or_default();
    if of != origin {
        return Err(BackupError::OtherStore { origin: of.to_owned() });
    }
    let Some(manifest) = manifest else { return Ok(None) };
    let checksum = crc32c::crc32c(&manifest);
    // A broker that was started on the backup has written another manifest.
    if mark.lines().any(|line| line == manifest_line(checksum)) {
        Ok(Some(checksum))
    } else {
        Err(BackupError::NotABackup)
    }
}

/// Marks an empty directory, so that a first backup that is interrupted can be repeated.
fn start(target: &dyn Disk, origin: &str) -> Result<Option<u32>, BackupError> {
    write_mark(target, origin, &[])?;
    Ok(None)
}

fn manifest_line(checksum: u32) -> String {
    format!("manifest {checksum:08x}")
}

fn write_mark(target: &dyn Disk, origin: &str, manifests: &[u32]) -> Result<(), BackupError> {
    let mut text = format!("A backup of a store of Tidegate: a data directory.\nof {origin}\n");
    for checksum in manifests {
        text.push_str(&manifest_line(*checksum));
        text.push('\n');
    }
    write_aside(target, MARK_ASIDE, MARK, &mut |file| file.write_at(text.as_bytes(), 0))
}

/// Writes a file under another name, syncs it, and gives it its name.
fn write_aside(
    target: &dyn Disk,
    aside: &str,
    name: &str,
    write: &mut dyn FnMut(&dyn DiskFile) -> io::Result<()>,
) -> Result<(), BackupError> {
    let failed = BackupError::target(name);
    // A new file: after a failed sync, the content of the old one cannot be trusted.
    let _ = target.remove(aside);
    let file = target.create(aside).map_err(&failed)?;
    let written = write(&*file).and_then(|()| file.sync_data());
    if let Err(error) = written {
        // It takes room that the next attempt may need.
        let _ = target.remove(aside);
        return Err(failed(error));
    }
    target.rename(aside, name).map_err(&failed)?;
    target.sync_directory().map_err(&failed)
}

/// The content of a small file; `None` if it does not exist.
fn read_whole(disk: &dyn Disk, name: &str, longest: u64) -> Result<Option<Vec<u8>>, ReadError> {
    let reading = |error| ReadError::reading(name, error);
    let file = match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(reading)?,
    };
    let length = file.length().map_err(reading)?;
    if length > longest {
        return Err(ReadError::damaged(name, longest, "it is longer than any file of this name"));
    }
    read_part(&*file, 0, length).map(Some).map_err(reading)
}

/// The result of a round over the journal.
enum Round {
    /// All files of this manifest are copied.
    Done(Manifest),
    /// Files have gone while they were read.
    Changed,
}

struct Copy<'a> {
    source: &'a dyn Disk,
    target: &'a dyn Disk,
    report: BackupReport,
}

impl Copy<'_> {
    /// Copies the journal and the table of one manifest.
    fn store(&mut self) -> Result<Manifest, BackupError> {
        let mut broken = None;
        for _ in 0..MAX_ROUNDS {
            let manifest = Manifest::load(self.source)?.ok_or(InspectError::NoStore)?;
            match self.round(&manifest, &mut broken) {
                Ok(Round::Done(manifest)) => return Ok(manifest),
                Ok(Round::Changed) => {}
                // A file that was reused while it was read looks damaged. Its manifest is then another one.
                Err(BackupError::Source(error)) => {
                    if Manifest::load(self.source)?.as_ref() == Some(&manifest) {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(BackupError::Changes)
    }

    fn round(&mut self, manifest: &Manifest, broken: &mut Option<u64>) -> Result<Round, BackupError> {
        self.report = BackupReport::default();
        // Held open: a table that a merge has replaced is removed, and can still be read.
        let table = manifest.table.map(|generation| self.open(&table::name(generation))).transpose()?;
        for (index, (id, first)) in manifest.segments.iter().enumerate() {
            let limit = manifest.segments.get(index + 1).map(|(_, first)| *first);
            if !self.segment(*id, *first, limit, broken)? {
                return Ok(Round::Changed);
            }
        }
        // The end of the last file has no limit in the manifest: if the file was reused meanwhile, frames are missing.
        let now = Manifest::load(self.source)?.ok_or(InspectError::NoStore)?;
        if manifest.segments.last().is_some_and(|last| !now.segments.contains(last)) {
            return Ok(Round::Changed);
        }
        if let (Some(generation), Some(file)) = (manifest.table, table) {
            self.table(generation, manifest.merged, &*file)?;
        }
        Ok(Round::Done(manifest.clone()))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn DiskFile>, ReadError> {
        self.source.open(name).map_err(|error| ReadError::reading(name, error))
    }

    /// Copies the header and the valid frames of a journal file. Returns whether it could be read as a whole.
    fn segment(
        &mut self,
        id: u64,
        first: u64,
        limit: Option<u64>,
        broken: &mut Option<u64>,
    ) -> Result<bool, BackupError> {
        let name = segment::name(id);
        let segment = open_segment(self.source, id, first)?;
        let scanned = scan(&segment, limit)?;
        let end = FIRST_FRAME + scanned.end as u64;
        if let Some(limit) = limit.filter(|limit| scanned.next < *limit) {
            let text = format!("frame {} is broken, but frames up to {limit} were written", scanned.next);
            return Err(ReadError::damaged(&name, end, text).into());
        }
        let tail = segment::tail(&scanned.bytes, scanned.end, scanned.next, segment.salt);
        if limit.is_none() && tail.durable > scanned.next {
            // Frames were written while the file was read, or this one is damaged: then it is broken in the next round.
            if broken.replace(scanned.next) != Some(scanned.next) {
                return Ok(false);
            }
            let text = format!("frame {} is broken, but all below {} were written", scanned.next, tail.durable);
            return Err(ReadError::damaged(&name, end, text).into());
        }
        let mut bytes = segment::header(id, first, segment.salt);
        bytes.extend_from_slice(scanned.bytes.get(..scanned.end).unwrap_or_default());
        self.put(&name, &bytes)?;
        Ok(true)
    }

    /// Writes a file of the backup, if it is not there with this content.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), BackupError> {
        let length = bytes.len() as u64;
        if self.has_same(name, length, &|at, portion| Ok(part(bytes, at, portion)))? {
            self.report.keep(length);
            return Ok(());
        }
        self.report.copy(length);
        write_aside(self.target, &aside(name), name, &mut |file| file.write_at(bytes, 0))
    }

    fn table(&mut self, generation: u64, merged: u64, file: &dyn DiskFile) -> Result<(), BackupError> {
        let name = table::name(generation);
        let length = file.length().map_err(|error| ReadError::reading(&name, error))?;
        let portion = |at, portion| read_part(file, at, portion).map_err(|error| ReadError::reading(&name, error));
        if self.has_same(&name, length, &portion)? {
            self.report.keep(length);
            return Ok(());
        }
        write_aside(self.target, &aside(&name), &name, &mut |to| copy_all(file, to, length))?;
        self.report.copy(length);
        let problems = check_table(self.target, generation, merged).problems;
        match problems.into_iter().next() {
            None => Ok(()),
            Some(problem) => Err(ReadError::damaged(&name, 0, problem).into()),
        }
    }

    /// Whether the backup has this file with the same content, which `read` reads in parts.
    fn has_same(&self, name: &str, length: u64, read: &ReadAt<'_>) -> Result<bool, BackupError> {
        let Ok(there) = self.target.open(name) else { return Ok(false) };
        if there.length().map_err(BackupError::target(name))? != length {
            return Ok(false);
        }
        let mut at = 0;
        while at < length {
            let portion = PORTION.min(length - at);
            if read_part(&*there, at, portion).map_err(BackupError::target(name))? != read(at, portion)? {
                return Ok(false);
            }
            at += portion;
        }
        Ok(true)
    }

    fn companion(&mut self, name: &str) -> Result<(), BackupError> {
        match read_whole(self.source, name, manifest::MAX_BYTES)? {
            Some(bytes) => self.put(name, &bytes),
            None => Ok(()),
        }
    }

    /// Removes files that this backup does not need: files of the previous backup, and of interrupted backups.
    fn remove_others(&mut self, manifest: &Manifest, companions: &[&str]) -> Result<(), BackupError> {
        let segments = manifest.segments.iter().map(|(id, _)| segment::name(*id));
        let needed: Vec<String> = segments.chain(manifest.table.map(table::name)).collect();
        for name in names(self.target)? {
            let is_store_file = recovery::number_of(&name).is_some() && !needed.contains(&name);
            let is_aside = companions.iter().any(|companion| name == aside(companion)) || name == MARK_ASIDE;
            if is_store_file || is_aside {
                self.target.remove(&name).map_err(BackupError::target(&name))?;
                self.report.removed_files += 1;
            }
        }
        self.target.sync_directory().map_err(BackupError::target("the directory"))
    }
}

/// Reads a part of a file: from a place, as many bytes.
type ReadAt<'a> = dyn Fn(u64, u64) -> Result<Vec<u8>, ReadError> + 'a;

fn part(bytes: &[u8], at: u64, length: u64) -> Vec<u8> {
    let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let to = usize::try_from(at + length).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(from..to).unwrap_or_default().to_vec()
}

/// The name of a file while it is written. An opened store removes such files of its own.
fn aside(name: &str) -> String {
    recovery::number_of(name).map_or_else(|| format!("{name}.new"), table::run_name)
}

fn copy_all(from: &dyn DiskFile, to: &dyn DiskFile, length: u64) -> io::Result<()> {
    let mut at = 0;
    while at < length {
        let portion = PORTION.min(length - at);
        to.write_at(&read_part(from, at, portion)?, at)?;
        at += portion;
    }
    Ok(())
}
