//! The working copy: its position in the log, and files that are assembled before they get their names.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_bus::Position;
use tidegate_store::{Disk, DiskFile, RealDisk};

use crate::extents::Extents;
use crate::files::{FileId, Files};

/// The file with the position of the working copy.
pub(crate) const STATE: &str = "MIRROR";
const ASIDE: &str = "MIRROR.new";
/// Says that another process has taken the log.
const FENCED: &str = "MIRROR.fenced";
const MAGIC: [u8; 8] = *b"TIDEMIRR";
const VERSION: u32 = 1;
/// Longest such file, bytes.
const MAX_STATE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes that are read or written at once.
const PORTION: usize = 1024 * 1024;

/// The log of a working copy, and a position whose records the log must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalState {
    pub(crate) log: String,
    pub(crate) position: Position,
    /// The list of files at that position, as the log has it; `None` while the copy is created.
    pub(crate) index: Option<Bytes>,
}

/// The kind of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is no copy.
    Nothing,
    /// It is a working copy with an unreadable position.
    Damaged,
    State(LocalState),
}

/// The position of a complete working copy whose log the servers have lost.
const LOST: Position = Position(u64::MAX);

impl Kept {
    /// Whether the directory has all files of the copy under their names.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::State(state) if state.index.is_some() || state.position == LOST)
    }

    /// Whether the copy has seen more of the log than up to here.
    pub(crate) fn has_seen(&self, end: Position) -> bool {
        matches!(self, Self::State(state) if state.position != LOST && state.position >= end)
    }

    /// Up to where the copy has seen the log.
    pub(crate) fn position(&self) -> Position {
        match self {
            Self::State(state) => state.position,
            Self::Nothing | Self::Damaged => Position::START,
        }
    }
}

impl LocalState {
    /// The copy is whole, and the servers have lost the log.
    pub(crate) fn lost(log: &str) -> Self {
        Self { log: log.to_owned(), position: LOST, index: None }
    }

    pub(crate) fn save(&self, disk: &RealDisk, sync: bool) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.position.0.to_le_bytes());
        bytes.extend_from_slice(&(self.log.len() as u32).to_le_bytes());
        bytes.extend_from_slice(self.log.as_bytes());
        bytes.push(u8::from(self.index.is_some()));
        bytes.extend_from_slice(self.index.as_deref().unwrap_or_default());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let file = disk.create(ASIDE)?;
        file.write_at(&bytes, 0)?;
        if sync {
            file.sync_data()?;
        }
        disk.rename(ASIDE, STATE)?;
        if sync { disk.sync_directory() } else { Ok(()) }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (magic, rest) = body.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (position, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        if *magic != MAGIC || u32::from_le_bytes(*version) != VERSION {
            return None;
        }
        let (log, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (is_whole, index) = rest.split_first()?;
        Some(Self {
            log: String::from_utf8(log.to_vec()).ok()?,
            position: Position(u64::from_le_bytes(*position)),
            index: (*is_whole != 0).then(|| Bytes::copy_from_slice(index)),
        })
    }
}

impl Kept {
    pub(crate) fn load(disk: &RealDisk) -> io::Result<Self> {
        let file = match disk.open(STATE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            other => other?,
        };
        let length = file.length()?;
        if length > MAX_STATE_BYTES {
            return Ok(Self::Damaged);
        }
        let mut bytes = vec![0; length as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(LocalState::decode(&bytes).map_or(Self::Damaged, Self::State))
    }
}

/// Whether a directory is the working copy of any log, at any position.
pub fn is_copy(directory: &Path) -> bool {
    directory.join(STATE).exists()
}

/// Whether another process has taken the log from the process that had the directory last, and none has had the
/// directory since then.
pub fn is_fenced(directory: &Path) -> bool {
    directory.join(FENCED).exists()
}

/// Notes whether another process has taken the log.
pub(crate) fn note_fenced(disk: &RealDisk, is_fenced: bool) -> io::Result<()> {
    if is_fenced {
        return disk.create(FENCED).map(drop);
    }
    match disk.remove(FENCED) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a file is the mirror's own.
pub(crate) fn is_own(name: &str) -> bool {
    name == STATE || name == ASIDE || name == FENCED || is_part(name)
}

fn is_part(name: &str) -> bool {
    name.strip_prefix("mirror-").is_some_and(|rest| rest.strip_suffix(".part").is_some())
}

fn part(id: FileId) -> String {
    format!("mirror-{id}.part")
}

/// Whether the content of a file matches these checksums; false if one of them is unknown.
pub(crate) fn holds(disk: &RealDisk, name: &str, extents: &Extents) -> bool {
    let look = || -> io::Result<bool> {
        let file = disk.open(name)?;
        if file.length()? < extents.end() {
            return Ok(false);
        }
        let mut buffer = vec![0; PORTION];
        for extent in extents.parts() {
            let (mut checksum, mut at) = (0, extent.at);
            while at < extent.end() {
                let length = (extent.end() - at).min(PORTION as u64) as usize;
                file.read_at(&mut buffer[..length], at)?;
                checksum = crc32c::crc32c_append(checksum, &buffer[..length]);
                at += length as u64;
            }
            if extent.checksum != Some(checksum) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    look().unwrap_or(false)
}

/// Files on their way to their names.
pub(crate) struct Parts<'a> {
    disk: &'a RealDisk,
    open: HashMap<FileId, Arc<dyn DiskFile>>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(disk: &'a RealDisk) -> Self {
        Self { disk, open: HashMap::new() }
    }

    fn file(&mut self, id: FileId) -> io::Result<&Arc<dyn DiskFile>> {
        match self.open.entry(id) {
            std::collections::hash_map::Entry::Occupied(there) => Ok(there.into_mut()),
            std::collections::hash_map::Entry::Vacant(free) => Ok(free.insert(self.disk.create(&part(id))?)),
        }
    }

    pub(crate) fn write(&mut self, id: FileId, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(id)?.write_at(bytes, at)
    }

    pub(crate) fn set_length(&mut self, id: FileId, length: u64) -> io::Result<()> {
        self.file(id)?.set_length(length)
    }

    pub(crate) fn remove(&mut self, id: FileId) -> io::Result<()> {
        if self.open.remove(&id).is_some() { self.disk.remove(&part(id)) } else { Ok(()) }
    }

    /// Uses a file of the working copy, and cuts off the bytes that the log does not have.
    pub(crate) fn adopt(&mut self, id: FileId, name: &str, extents: &Extents) -> io::Result<()> {
        self.disk.rename(name, &part(id))?;
        let file = self.disk.open(&part(id))?;
        let mut end = 0;
        for extent in extents.parts() {
            while end < extent.at {
                let length = (extent.at - end).min(PORTION as u64);
                file.write_at(&vec![0; length as usize], end)?;
                end += length;
            }
            end = extent.end();
        }
        file.set_length(end)?;
        self.open.insert(id, file);
        Ok(())
    }

    /// Removes all.
    pub(crate) fn discard(mut self) -> io::Result<()> {
        self.open.clear();
        let names = self.disk.list()?;
        names.iter().filter(|name| is_part(name)).try_for_each(|name| self.disk.remove(name))
    }

    /// Gives all files their names, and replaces the store's files in the directory.
    pub(crate) fn install(mut self, files: &Files, sync: bool) -> io::Result<()> {
        for (id, file) in files.iter() {
            let part = self.file(id)?;
            part.set_length(file.length)?;
            if sync {
                part.sync_data()?;
            }
        }
        for name in self.disk.list()? {
            if tidegate_store::inspect::is_ours(&name) {
                self.disk.remove(&name)?;
            }
        }
        for (id, file) in files.iter() {
            if let Some(name) = &file.name {
                self.disk.rename(&part(id), name)?;
            }
        }
        let disk = self.disk;
        self.discard()?;
        if sync { disk.sync_directory() } else { Ok(()) }
    }
}
