//! Reads the log of file calls.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The first bytes of every record.
const MAGIC: u32 = 0x3156_4754;
/// Bytes of a record before its payload.
const HEAD: usize = 32;

/// A call that the library has seen. Paths are relative to the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A program has loaded the library.
    Hello { pid: u32 },
    /// A file that existed was opened to be written.
    Opened { file: u64, path: PathBuf },
    /// A file came into being.
    Created { file: u64, path: PathBuf, mode: u32 },
    /// Bytes were written.
    Written { file: u64, offset: u64, bytes: &'a [u8] },
    /// The length was set.
    Truncated { file: u64, length: u64 },
    /// Everything of this file before this place in the log is safe.
    Synced { file: u64, until: u64 },
    /// Syncing failed: unsafe bytes before this place never become safe.
    SyncFailed { file: u64, until: u64 },
    /// A name was given to what another name stood for.
    Renamed { from: PathBuf, to: PathBuf },
    /// A name is gone.
    Unlinked { path: PathBuf },
    /// A folder came into being.
    MadeDir { path: PathBuf, mode: u32 },
    /// A folder is gone.
    RemovedDir { path: PathBuf },
    /// The names of this folder are safe as they were at this place in the log.
    DirSynced { path: PathBuf, until: u64 },
    /// A file has got a second name.
    Linked { from: PathBuf, to: PathBuf },
    /// The library let a call fail, or made it short.
    Faulted,
}

/// An event and its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) at: u64,
    pub(crate) event: Event<'a>,
}

/// Reads all records. One that is cut off at the end did not happen.
pub(crate) fn read<'a>(bytes: &'a [u8], folder: &Path) -> Result<Vec<Record<'a>>, Failure> {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD) {
        if word(head, 0) as u32 != MAGIC {
            return Err(Failure::Log { at, fault: "no record begins here" });
        }
        let length = word(head, 24) as usize;
        let Some(payload) = bytes.get(at + HEAD..at + HEAD + length) else {
            break;
        };
        let kind = (word(head, 0) >> 32) as u32;
        let event =
            event(kind, word(head, 8), word(head, 16), payload, folder).map_err(|fault| Failure::Log { at, fault })?;
        records.push(Record { at: at as u64, event });
        at += HEAD + length;
    }
    Ok(records)
}

fn word(head: &[u8], at: usize) -> u64 {
    head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn event<'a>(kind: u32, file: u64, offset: u64, payload: &'a [u8], folder: &Path) -> Result<Event<'a>, &'static str> {
    let relative = |bytes: &[u8]| {
        let path = Path::new(OsStr::from_bytes(bytes));
        path.strip_prefix(folder).map(Path::to_path_buf).map_err(|_| "a path is outside of the folder")
    };
    let pair = || {
        let zero = payload.iter().position(|byte| *byte == 0).ok_or("a pair of paths is incomplete")?;
        Ok::<_, &'static str>((relative(&payload[..zero])?, relative(&payload[zero + 1..])?))
    };
    Ok(match kind {
        0 => Event::Hello { pid: file as u32 },
        1 => Event::Opened { file, path: relative(payload)? },
        2 => Event::Created { file, path: relative(payload)?, mode: offset as u32 },
        3 => Event::Written { file, offset, bytes: payload },
        4 => Event::Truncated { file, length: offset },
        5 => Event::Synced { file, until: offset },
        6 => Event::SyncFailed { file, until: offset },
        7 => pair().map(|(from, to)| Event::Renamed { from, to })?,
        8 => Event::Unlinked { path: relative(payload)? },
        9 => Event::MadeDir { path: relative(payload)?, mode: offset as u32 },
        10 => Event::RemovedDir { path: relative(payload)? },
        11 => Event::DirSynced { path: relative(payload)?, until: offset },
        12 => pair().map(|(from, to)| Event::Linked { from, to })?,
        13 => return Err("the broker changes files in a way that the library cannot see (mmap or an unusual call)"),
        14 => Event::Faulted,
        _ => return Err("an unknown kind of record"),
    })
}
