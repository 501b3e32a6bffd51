//! The file of a log: batches of changes, each with a checksum.
//!
//! A batch is written at once and made durable before anything of it is confirmed, and before the next one is written.
//! So what is broken at the end of a file was never confirmed and is cut off, while something whole behind what is
//! broken means damage.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::change::Change;
use crate::LogName;

/// What each batch begins with: this, the length of the body, its checksum, and the checksum of these three.
const MAGIC: [u8; 4] = *b"TGb2";
const HEAD: usize = 16;
/// What the names of files of logs end with, behind the name of the log.
pub(super) const SUFFIX: &str = ".log";
/// Records that are written at once into a new file: a few of the largest still fit into a batch.
const RECORDS_OF_A_BATCH: usize = 32;

/// A log's file, open for appending.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes that are in it.
    pub(super) bytes: u64,
}

impl LogFile {
    /// Opens the file of a log, or makes an empty one, and reads its changes.
    ///
    /// # Errors
    /// When it cannot be read or written, or is damaged elsewhere than at its end.
    pub(super) fn open(directory: &Path, log: &LogName) -> io::Result<(Self, Vec<Change>)> {
        let path = directory.join(format!("{log}{SUFFIX}"));
        let content = match fs::read(&path) {
            Ok(content) => Bytes::from(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Bytes::new(),
            Err(error) => return Err(error),
        };
        let (changes, end) = parse(&content).map_err(|at| damaged(&path, at))?;
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        if end < content.len() {
            tracing::warn!(path = %path.display(), bytes = content.len() - end, "cut off a part that was never confirmed");
            file.set_len(end as u64)?;
            file.sync_all()?;
        }
        sync_directory(directory)?;
        Ok((Self { path, file, bytes: end as u64 }, changes))
    }

    /// Appends a batch, which [`Self::sync`] makes durable.
    ///
    /// # Errors
    /// When that fails; then what the file holds is unknown, and it is not to be written to any more.
    pub(super) fn append(&mut self, changes: &[Change]) -> io::Result<()> {
        let batch = encode(changes);
        self.file.write_all(&batch)?;
        self.bytes += batch.len() as u64;
        Ok(())
    }

    /// Makes the appended batches durable.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Puts a new file in the place of this one. The old one stays when that fails before the new one is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn replace(&mut self, changes: &[Change]) -> io::Result<()> {
        let path = self.path.with_extension("log-new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let mut bytes = 0;
        for part in changes.chunks(RECORDS_OF_A_BATCH) {
            let batch = encode(part);
            file.write_all(&batch)?;
            bytes += batch.len() as u64;
        }
        file.sync_all()?;
        fs::rename(&path, &self.path)?;
        self.path.parent().map_or(Ok(()), sync_directory)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.bytes = bytes;
        Ok(())
    }
}

fn encode(changes: &[Change]) -> Vec<u8> {
    let mut batch = vec![0; HEAD];
    for change in changes {
        change.encode(&mut batch);
    }
    let body = &batch[HEAD..];
    let (length, sum) = (body.len() as u32, crc32c::crc32c(body));
    batch[..4].copy_from_slice(&MAGIC);
    batch[4..8].copy_from_slice(&length.to_le_bytes());
    batch[8..12].copy_from_slice(&sum.to_le_bytes());
    let head = crc32c::crc32c(&batch[..12]);
    batch[12..HEAD].copy_from_slice(&head.to_le_bytes());
    batch
}

/// All changes and where the last whole batch ends, or where the file is damaged.
fn parse(content: &Bytes) -> Result<(Vec<Change>, usize), usize> {
    let (mut changes, mut at) = (Vec::new(), 0);
    while at < content.len() {
        let Some(mut body) = batch_at(content, at) else {
            let is_whole = |later: &usize| batch_at(content, *later).is_some();
            return if (at + 1..content.len()).any(|later| is_whole(&later)) { Err(at) } else { Ok((changes, at)) };
        };
        let end = at + HEAD + body.len();
        while !body.is_empty() {
            changes.push(Change::decode(&mut body).ok_or(at)?);
        }
        at = end;
    }
    Ok((changes, at))
}

fn batch_at(content: &Bytes, at: usize) -> Option<Bytes> {
    let head = content.get(at..at.checked_add(HEAD)?)?;
    let number = |from: usize| Some(u32::from_le_bytes(head.get(from..from + 4)?.try_into().ok()?));
    if head[..4] != MAGIC || crc32c::crc32c(&head[..12]) != number(12)? {
        return None;
    }
    let start = at + HEAD;
    let body = content.get(start..start.checked_add(number(4)? as usize)?)?;
    (crc32c::crc32c(body) == number(8)?).then(|| content.slice_ref(body))
}

fn damaged(path: &Path, at: usize) -> io::Error {
    let advice =
        format!("{} is damaged at byte {at}; restore it, or move it away to begin with an empty log", path.display());
    io::Error::new(io::ErrorKind::InvalidData, advice)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;

    fn trim(below: u64) -> Change {
        Change::Trim { partition: 0, below: Position(below) }
    }

    #[test]
    fn a_torn_end_is_cut_off_wherever_it_is_torn() {
        let (one, two) = (encode(&[trim(1)]), encode(&[trim(2), trim(3)]));
        for end in 0..two.len() {
            let content = Bytes::from([&one[..], &two[..end]].concat());
            assert_eq!(parse(&content), Ok((vec![trim(1)], one.len())), "{end}");
        }
        let content = Bytes::from([&one[..], &two[..]].concat());
        assert_eq!(parse(&content), Ok((vec![trim(1), trim(2), trim(3)], content.len())));
    }

    #[test]
    fn any_bit_that_is_wrong_before_something_whole_is_damage() {
        let (one, two) = (encode(&[trim(1)]), encode(&[trim(2)]));
        for bit in 0..one.len() * 8 {
            let mut content = [&one[..], &two[..]].concat();
            content[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&content.into()), Err(0), "{bit}");
        }
    }
}
