//! The file of a log: batches of changes, each with a checksum.
//!
//! A batch is written at once and made durable before anything of it is confirmed, and before the next one is written.
//! So a broken end of a file was never confirmed and is cut off, while a whole batch behind a broken one means damage.
//!
//! Records have payloads of clients, and one may look like a batch. All checksums therefore begin with a random salt,
//! which the head of the file has and no client knows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::change::Change;
use crate::LogName;

/// A file begins with this, the salt, and the checksum of both.
const FILE_MAGIC: [u8; 4] = *b"TGb3";
/// A batch begins with this, the length of the body, its checksum, and the checksum of these three.
const MAGIC: [u8; 4] = *b"TGbb";
/// Bytes of the head of a file, and of the head of a batch.
const HEAD: usize = 16;
/// The end of the names of files of logs, after the name of the log.
pub(super) const SUFFIX: &str = ".log";
/// The end of the name of a mark: a sync of the file has failed.
const UNSYNCED: &str = "log-unsynced";
/// Records that are written at once into a new file: a few of the largest still fit into a batch.
const RECORDS_OF_A_BATCH: usize = 32;

/// The salt of a file's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Salt([u8; 8]);

impl Salt {
    fn random() -> io::Result<Self> {
        let mut salt = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut salt)?;
        Ok(Self(salt))
    }

    fn sum(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.0), bytes)
    }

    /// The head of a file with this salt.
    fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&FILE_MAGIC);
        head[4..12].copy_from_slice(&self.0);
        let sum = crc32c::crc32c(&head[..12]);
        head[12..].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// The salt in the head of a file.
    fn of(content: &[u8]) -> Option<Self> {
        let salt = Self(content.get(4..12)?.try_into().ok()?);
        (content.get(..HEAD)? == salt.head()).then_some(salt)
    }
}

/// A log's file, open for appending.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    salt: Salt,
    /// Bytes that are in it.
    pub(super) bytes: u64,
    /// Bytes that it had when it was written whole by [`Self::replace`].
    image: u64,
}

impl LogFile {
    /// Opens the file of a log, or makes an empty one, and reads its changes. All of them are durable.
    ///
    /// # Errors
    /// When it cannot be read or written, or is damaged elsewhere than at its end.
    pub(super) fn open(directory: &Path, log: &LogName) -> io::Result<(Self, Vec<Change>)> {
        Self::open_with(directory, log, File::sync_data)
    }

    fn open_with(
        directory: &Path,
        log: &LogName,
        sync: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<(Self, Vec<Change>)> {
        let path = directory.join(format!("{log}{SUFFIX}"));
        let content = match fs::read(&path) {
            Ok(content) => Bytes::from(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let salt = Salt::random()?;
                let (file, bytes) = write_whole(&path, salt, &[])?;
                return Ok((Self { path, file, salt, bytes, image: 0 }, Vec::new()));
            }
            Err(error) => return Err(error),
        };
        let salt = Salt::of(&content).ok_or_else(|| damaged(&path, 0))?;
        let (changes, end) = parse(&content, salt).map_err(|at| damaged(&path, at))?;
        let file = OpenOptions::new().append(true).open(&path)?;
        if end < content.len() {
            tracing::warn!(path = %path.display(), bytes = content.len() - end, "truncated an unconfirmed part");
            file.set_len(end as u64)?;
            file.sync_all()?;
        }
        let mut log = Self { path, file, salt, bytes: end as u64, image: 0 };
        log.make_durable(&changes, sync)?;
        sync_directory(directory)?;
        Ok((log, changes))
    }

    /// Makes the changes durable that were read. The process that wrote it may have ended between a write and its sync, and a read
    /// finds such bytes in memory. After a failed sync the system takes the bytes for written, and a later sync says
    /// nothing about them: they are written again, into a new file.
    fn make_durable(&mut self, changes: &[Change], sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let mark = self.path.with_extension(UNSYNCED);
        let is_marked = mark.try_exists()?;
        if !is_marked && sync(&self.file).is_ok() {
            return Ok(());
        }
        tracing::warn!(path = %self.path.display(), "a sync of this file failed; writing it again");
        self.replace(changes)?;
        if is_marked { fs::remove_file(&mark) } else { Ok(()) }
    }

    /// Appends a batch, which [`Self::sync`] makes durable.
    ///
    /// # Errors
    /// When that fails; then the file's content is unknown, and it is not to be written to any more.
    pub(super) fn append(&mut self, changes: &[Change]) -> io::Result<()> {
        let batch = encode(changes, self.salt);
        self.file.write_all(&batch)?;
        self.bytes += batch.len() as u64;
        Ok(())
    }

    /// Makes the appended batches durable.
    ///
    /// # Errors
    /// As [`Self::append`]. The file is marked, and the process that opens it next writes it again.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data().inspect_err(|_| self.mark_unsynced())
    }

    /// Leaves a mark for other processes. It need not be durable: after a crash of the machine, a read finds only
    /// bytes of the disk.
    fn mark_unsynced(&self) {
        if let Err(error) = File::create(self.path.with_extension(UNSYNCED)) {
            tracing::error!(path = %self.path.display(), %error, "cannot mark a file whose sync failed");
        }
    }

    /// Whether so much of the file is not kept any more that it is worth a new one: it is twice as large as the kept
    /// bytes, and as the last new file, and more.
    pub(super) fn is_mostly_spare(&self, kept: u64, spare: u64) -> bool {
        self.bytes >= kept.max(self.image) * 2 + spare
    }

    /// Puts a new file in the place of this one. The old one stays when that fails before the new one is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn replace(&mut self, changes: &[Change]) -> io::Result<()> {
        (self.file, self.bytes) = write_whole(&self.path, self.salt, changes)?;
        self.image = self.bytes;
        Ok(())
    }
}

/// Puts a whole file in its place, and returns it, open for appending, with its length in bytes.
fn write_whole(path: &Path, salt: Salt, changes: &[Change]) -> io::Result<(File, u64)> {
    let new = path.with_extension("log-new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(&salt.head())?;
    let mut bytes = HEAD as u64;
    for part in changes.chunks(RECORDS_OF_A_BATCH) {
        let batch = encode(part, salt);
        file.write_all(&batch)?;
        bytes += batch.len() as u64;
    }
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_directory)?;
    Ok((OpenOptions::new().append(true).open(path)?, bytes))
}

fn encode(changes: &[Change], salt: Salt) -> Vec<u8> {
    let mut batch = vec![0; HEAD];
    for change in changes {
        change.encode(&mut batch);
    }
    let body = &batch[HEAD..];
    let (length, sum) = (body.len() as u32, salt.sum(body));
    batch[..4].copy_from_slice(&MAGIC);
    batch[4..8].copy_from_slice(&length.to_le_bytes());
    batch[8..12].copy_from_slice(&sum.to_le_bytes());
    let head = salt.sum(&batch[..12]);
    batch[12..HEAD].copy_from_slice(&head.to_le_bytes());
    batch
}

/// All changes and where the last whole batch ends, or where the file is damaged.
fn parse(content: &Bytes, salt: Salt) -> Result<(Vec<Change>, usize), usize> {
    let (mut changes, mut at) = (Vec::new(), HEAD);
    while at < content.len() {
        let Some(mut body) = batch_at(content, at, salt) else {
            let is_whole = |later: &usize| batch_at(content, *later, salt).is_some();
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

fn batch_at(content: &Bytes, at: usize, salt: Salt) -> Option<Bytes> {
    let head = content.get(at..at.checked_add(HEAD)?)?;
    let number = |from: usize| Some(u32::from_le_bytes(head.get(from..from + 4)?.try_into().ok()?));
    if head[..4] != MAGIC || salt.sum(&head[..12]) != number(12)? {
        return None;
    }
    let start = at + HEAD;
    let body = content.get(start..start.checked_add(number(4)? as usize)?)?;
    (salt.sum(body) == number(8)?).then(|| content.slice_ref(body))
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
    use crate::{Position, Record};

    fn trim(below: u64) -> Change {
        Change::Trim { partition: 0, below: Position(below) }
    }

    const SALT: Salt = Salt(*b"saltsalt");

    fn batch(changes: &[Change]) -> Vec<u8> {
        encode(changes, SALT)
    }

    fn file(batches: &[&[u8]]) -> Bytes {
        [&SALT.head()[..], &batches.concat()].concat().into()
    }

    #[test]
    fn a_torn_end_is_cut_off_wherever_it_is_torn() {
        let (one, two) = (batch(&[trim(1)]), batch(&[trim(2), trim(3)]));
        for end in 0..two.len() {
            let content = file(&[&one, &two[..end]]);
            assert_eq!(parse(&content, SALT), Ok((vec![trim(1)], HEAD + one.len())), "{end}");
        }
        let content = file(&[&one, &two]);
        assert_eq!(parse(&content, SALT), Ok((vec![trim(1), trim(2), trim(3)], content.len())));
    }

    #[test]
    fn any_wrong_bit_before_a_whole_batch_is_damage() {
        let (one, two) = (batch(&[trim(1)]), batch(&[trim(2)]));
        for bit in 0..one.len() * 8 {
            let mut content = file(&[&one, &two]).to_vec();
            content[HEAD + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&content.into(), SALT), Err(HEAD), "{bit}");
        }
    }

    #[test]
    fn a_payload_that_looks_like_a_batch_is_no_damage() {
        // A client may know the format of batches, and not the salt of the file.
        let forged = encode(&[trim(9)], Salt(*b"another."));
        let payload = Bytes::from([&forged[..], &[0; 64]].concat());
        let record = Record { position: Position(0), key: Bytes::new(), headers: Vec::new(), payload };
        let (one, two) = (batch(&[trim(1)]), batch(&[Change::Record { partition: 0, origin: None, record }]));
        let content = file(&[&one, &two[..two.len() - 1]]);
        assert_eq!(parse(&content, SALT), Ok((vec![trim(1)], HEAD + one.len())));
    }

    /// A directory that is removed with this.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tidegate-bus-file-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn inode(path: &Path) -> u64 {
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap())
    }

    #[test]
    fn appends_of_a_dead_process_are_synced_before_a_read() {
        let directory = Directory::new("takeover");
        let name = LogName::within("log".to_owned());
        let (mut file, _) = LogFile::open(&directory.0, &name).unwrap();
        // Its process ends before the sync.
        file.append(&[trim(1)]).unwrap();
        let path = file.path.clone();
        drop(file);
        let (before, mut syncs) = (inode(&path), 0);
        let sync = |file: &File| {
            syncs += 1;
            file.sync_data()
        };
        let (_, changes) = LogFile::open_with(&directory.0, &name, sync).unwrap();
        assert_eq!((changes, syncs, inode(&path)), (vec![trim(1)], 1, before));
    }

    #[test]
    fn a_file_whose_sync_failed_is_written_again() {
        let directory = Directory::new("unsynced");
        let name = LogName::within("log".to_owned());
        let (mut file, _) = LogFile::open(&directory.0, &name).unwrap();
        file.append(&[trim(1)]).unwrap();
        let path = file.path.clone();
        let first = inode(&path);
        // The sync of the process that takes over fails.
        let failing = |_: &File| Err(io::ErrorKind::Other.into());
        let (other, changes) = LogFile::open_with(&directory.0, &name, failing).unwrap();
        let second = inode(&path);
        assert!(changes == [trim(1)] && first != second);
        // The sync of the process before failed, and its next one says nothing.
        other.mark_unsynced();
        let (_, changes) = LogFile::open(&directory.0, &name).unwrap();
        let third = inode(&path);
        assert!(changes == [trim(1)] && second != third);
        LogFile::open(&directory.0, &name).unwrap();
        assert_eq!(inode(&path), third, "the mark is gone");
    }

    #[test]
    fn a_new_file_is_not_written_again_at_once() {
        let directory = Directory::new("image");
        let (mut file, _) = LogFile::open(&directory.0, &LogName::within("log".to_owned())).unwrap();
        let stored = (0..100).map(|number| (number, Position(number))).collect();
        let remembered = Change::Remembered { partition: 0, client: 1, last: 99, stored };
        file.replace(&[remembered]).unwrap();
        // Nothing of it is a kept record.
        assert!(!file.is_mostly_spare(0, 100));
        file.append(&vec![trim(1); 200]).unwrap();
        assert!(file.is_mostly_spare(0, 100));
    }

    #[test]
    fn a_file_without_its_head_is_damaged() {
        let head = SALT.head();
        assert_eq!(Salt::of(&head), Some(SALT));
        for bit in 0..HEAD * 8 {
            let mut head = head;
            head[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Salt::of(&head), None, "{bit}");
        }
        assert_eq!(Salt::of(&head[..HEAD - 1]), None);
    }
}
