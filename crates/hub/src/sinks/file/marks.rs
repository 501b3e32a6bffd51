//! How far a file is confirmed, and the ids of its last records, in a file beside it.
//!
//! A batch is synced in the file of lines first, then noted here, and acknowledged at last. So the file of lines is cut off
//! at the noted length after a crash, and a record that comes again is known by its id.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::lock::{lock_at_once, open_locked};
use super::{prepare_directory, sync_directory};

/// Records whose ids are kept. A record that comes again after more others is written again.
const IDS_KEPT: usize = 65_536;
/// Bytes of notes beyond which they are rewritten.
const MAX_NOTES: u64 = 3 * IDS_KEPT as u64 * 2 * ID_BYTES as u64;
/// Bytes of the digest of an id.
const ID_BYTES: usize = 16;

/// The digest of the id of a record.
pub(super) type IdDigest = [u8; ID_BYTES];

/// The digest of an id.
pub(super) fn digest(id: &str) -> IdDigest {
    let mut context = Context::new(&SHA256);
    context.update(id.as_bytes());
    let mut found = IdDigest::default();
    found.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    found
}

/// The notes of a file of lines.
#[derive(Debug)]
pub(super) struct FileMarks {
    path: PathBuf,
    file: File,
    /// Bytes of whole notes.
    len: u64,
    /// The inode of the file of lines, and its confirmed bytes.
    confirmed: Option<(u64, u64)>,
    known: HashSet<IdDigest>,
    order: VecDeque<IdDigest>,
}

/// Behind the name of a file of lines.
const ENDING: &str = ".marks";

fn path_of(lines: &Path) -> PathBuf {
    let mut name = lines.as_os_str().to_owned();
    name.push(ENDING);
    PathBuf::from(name)
}

/// Forgets how far a file of lines is confirmed, for a writer without `exactly_once`. Otherwise its lines would be cut off when
/// `exactly_once` comes back. A writer with `exactly_once` locks its notes for as long as it runs.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] while another process writes the file with `exactly_once`.
pub(super) fn forget(lines: &Path) -> io::Result<()> {
    let path = path_of(lines);
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    // The lock lasts until the file is away, so that no writer opens the notes meanwhile.
    let _locked = match open_locked(&options, &path, &mut |file| lock_at_once(file, false)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another process writes it with `exactly_once`: give all sinks of one file the same `exactly_once`",
            ));
        }
        opened => opened?,
    };
    fs::remove_file(path)
}

impl FileMarks {
    /// Reads the notes of a file of lines, up to the last whole one.
    pub(super) fn open(lines: &Path) -> io::Result<Self> {
        let path = path_of(lines);
        let is_new = prepare_directory(&path)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // Another process may have rewritten the notes before they were locked.
        let (mut file, _) = open_locked(&options, &path, &mut |file| lock_at_once(file, true))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let mut marks = Self { path, file, len: 0, confirmed: None, known: HashSet::new(), order: VecDeque::new() };
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some((inode, bytes, ids)) = read_note(line) else { break };
            marks.len += line.len() as u64;
            marks.take(inode, bytes, &ids);
        }
        marks.file.set_len(marks.len)?;
        if is_new {
            marks.file.sync_all()?;
            sync_directory(&marks.path)?;
        }
        Ok(marks)
    }

    /// The confirmed bytes of the file of lines with this inode.
    pub(super) fn confirmed(&self, inode: u64) -> Option<u64> {
        self.confirmed.filter(|(noted, _)| *noted == inode).map(|(_, bytes)| bytes)
    }

    /// Whether the file of lines has the record with this id.
    pub(super) fn has(&self, id: &IdDigest) -> bool {
        self.known.contains(id)
    }

    /// Notes that the file of lines has these records, and is confirmed up to `bytes`.
    ///
    /// # Errors
    /// When the note cannot be written. It is not there then.
    pub(super) fn note(&mut self, inode: u64, bytes: u64, ids: &[IdDigest]) -> io::Result<()> {
        let line = note(inode, bytes, ids.iter());
        if let Err(error) = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data()) {
            self.file.set_len(self.len)?;
            return Err(error);
        }
        self.len += line.len() as u64;
        self.take(inode, bytes, ids);
        if self.len > MAX_NOTES { self.rewrite() } else { Ok(()) }
    }

    fn take(&mut self, inode: u64, bytes: u64, ids: &[IdDigest]) {
        self.confirmed = Some((inode, bytes));
        for id in ids.iter().filter(|id| self.known.insert(**id)) {
            self.order.push_back(*id);
        }
        while self.order.len() > IDS_KEPT {
            if let Some(id) = self.order.pop_front() {
                self.known.remove(&id);
            }
        }
    }

    /// Leaves out the ids that are forgotten. The file is replaced whole.
    fn rewrite(&mut self) -> io::Result<()> {
        let Some((inode, bytes)) = self.confirmed else { return Ok(()) };
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let line = note(inode, bytes, self.order.iter());
        fs::write(&name, "")?;
        let mut file = OpenOptions::new().append(true).open(&name)?;
        lock_at_once(&file, true)?;
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        fs::rename(&name, &self.path)?;
        sync_directory(&self.path)?;
        self.file = file;
        self.len = line.len() as u64;
        Ok(())
    }
}

/// A note: inode, confirmed bytes, number of ids, and the ids in hexadecimal digits.
fn note<'a>(inode: u64, bytes: u64, ids: impl ExactSizeIterator<Item = &'a IdDigest>) -> String {
    let mut line = format!("{inode} {bytes} {} ", ids.len());
    for byte in ids.flatten() {
        // Writing to text does not fail.
        let _ = write!(line, "{byte:02x}");
    }
    line.push('\n');
    line
}

/// Reads a note; nothing when it is torn.
fn read_note(line: &[u8]) -> Option<(u64, u64, Vec<IdDigest>)> {
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let mut parts = text.split(' ');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (inode, bytes, count) = (number()?, number()?, number()?);
    let digits = parts.next()?.as_bytes();
    let id = |digits: &[u8]| {
        let mut id = IdDigest::default();
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(id)
    };
    let ids: Vec<IdDigest> = digits.chunks(2 * ID_BYTES).map(id).collect::<Option<_>>()?;
    let is_whole = ids.len() as u64 == count && digits.len() == ids.len() * 2 * ID_BYTES;
    is_whole.then_some((inode, bytes, ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-marks-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder.join("readings.ndjson")
    }

    #[test]
    fn notes_are_read_up_to_the_last_whole_one() {
        let lines = lines("torn");
        let ids = [digest("a"), digest("b")];
        let mut marks = FileMarks::open(&lines).unwrap();
        marks.note(7, 0, &[]).unwrap();
        marks.note(7, 100, &ids[..1]).unwrap();
        let path = marks.path.clone();
        let whole = fs::read(&path).unwrap();
        marks.note(7, 200, &ids[1..]).unwrap();
        let all = fs::read(&path).unwrap();
        assert!(FileMarks::open(&lines).is_err(), "another process writes it");
        drop(marks);
        for len in whole.len()..=all.len() {
            let mut torn = all[..len].to_vec();
            fs::write(&path, &torn).unwrap();
            let is_whole = len == all.len();
            let read = FileMarks::open(&lines).unwrap();
            assert_eq!(read.confirmed(7), Some(if is_whole { 200 } else { 100 }));
            assert_eq!((read.has(&ids[0]), read.has(&ids[1]), read.confirmed(8)), (true, is_whole, None));
            // Zeros, as a file system may leave them.
            torn.resize(all.len(), 0);
            fs::write(&path, &torn).unwrap();
            drop(read);
            assert_eq!(FileMarks::open(&lines).unwrap().confirmed(7), Some(if is_whole { 200 } else { 100 }));
        }
        forget(&lines).unwrap();
        forget(&lines).unwrap();
        assert_eq!(FileMarks::open(&lines).unwrap().confirmed(7), None);
    }

    #[test]
    fn a_bounded_number_of_ids_is_kept() {
        let lines = lines("bound");
        let mut marks = FileMarks::open(&lines).unwrap();
        let id = |number: usize| digest(&number.to_string());
        let mut longest = 0;
        for begin in (0..4 * IDS_KEPT).step_by(4096) {
            let ids: Vec<_> = (begin..begin + 4096).map(id).collect();
            marks.note(1, begin as u64, &ids).unwrap();
            longest = longest.max(fs::metadata(&marks.path).unwrap().len());
        }
        assert!(longest <= MAX_NOTES + 4096 * 2 * ID_BYTES as u64 + 100, "{longest}");
        for is_read in [false, true] {
            if is_read {
                drop(marks);
                marks = FileMarks::open(&lines).unwrap();
            }
            assert_eq!((marks.known.len(), marks.order.len()), (IDS_KEPT, IDS_KEPT));
            assert!(marks.has(&id(3 * IDS_KEPT)) && marks.has(&id(4 * IDS_KEPT - 1)));
            assert!(!marks.has(&id(3 * IDS_KEPT - 1)));
            assert_eq!(marks.confirmed(1), Some(4 * IDS_KEPT as u64 - 4096));
        }
    }
}
