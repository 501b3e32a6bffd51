//! The book on a disk: a file of lines, each a checksum and the changes of one step. A step's line is on the disk
//! before the step is taken.
//!
//! A line is eight hexadecimal digits of CRC-32C, a space and JSON. A crash may tear the last line: its commands were
//! not executed, and it is cut off. A damaged line before the last one is an error, for later lines depend on it. When
//! the file is longer than 1 MiB it is rewritten with the current book.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::book::{Book, Record};

/// Size from which on the journal is rewritten, bytes.
const MAX_JOURNAL: u64 = 1024 * 1024;
/// Most bytes that are read. A longer file is not a journal of ours.
const MAX_READ: u64 = 64 * 1024 * 1024;
const FILE: &str = "journal";

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk refuses.
    #[error("cannot {attempt} {}: {source}", .path.display())]
    Io {
        /// The attempted operation.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its content is not that of a manager.
    #[error("line {line} of {} is damaged; restore the file, or delete it to register the running resources of the fleet again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// The journal of one fleet.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    /// The saved book; the manager's own is ahead by the changes to be saved next.
    book: Book,
}

impl Journal {
    /// Opens the journal in a directory, with its book; an empty one if there is no file.
    ///
    /// # Errors
    /// When the disk refuses or the journal is damaged.
    pub fn open(directory: &Path) -> Result<(Self, Book), JournalError> {
        let path = directory.join(FILE);
        let io = |attempt| {
            let path = path.clone();
            move |source| JournalError::Io { attempt, path, source }
        };
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(io("open"))?;
        let mut bytes = Vec::new();
        (&mut file).take(MAX_READ).read_to_end(&mut bytes).map_err(io("read"))?;
        let (book, length) = replay(&bytes).map_err(|line| JournalError::Damaged { path: path.clone(), line })?;
        if length < bytes.len() {
            tracing::warn!(journal = %path.display(), bytes = bytes.len() - length, "the journal's last line was incomplete; its commands were not executed");
        }
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        file.set_len(length).map_err(io("cut"))?;
        Ok((Self { path, file, length, book: book.clone() }, book))
    }

    /// Adds the changes of one step. They are on the disk when it returns.
    ///
    /// # Errors
    /// When the disk refuses: the step must not be taken.
    pub fn keep(&mut self, records: &[Record]) -> Result<(), JournalError> {
        let line = line(records).map_err(|source| self.failed("write", source))?;
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // A partly written line is cut off, so that the next one is on its own line.
            let _ = self.file.set_len(self.length);
            return Err(self.failed("write", source));
        }
        self.length += line.len() as u64;
        for record in records {
            self.book.apply(record.clone());
        }
        if self.length > MAX_JOURNAL { self.rewrite() } else { Ok(()) }
    }

    fn rewrite(&mut self) -> Result<(), JournalError> {
        let new = self.path.with_extension("new");
        let written = line(&[Record::Whole(self.book.clone())]).and_then(|line| {
            let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(&new)?;
            file.write_all(line.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            if let Some(directory) = self.path.parent() {
                File::open(directory)?.sync_all()?;
            }
            self.file = OpenOptions::new().append(true).open(&self.path)?;
            self.length = line.len() as u64;
            Ok(())
        });
        written.map_err(|source| self.failed("replace", source))
    }

    fn failed(&self, attempt: &'static str, source: io::Error) -> JournalError {
        JournalError::Io { attempt, path: self.path.clone(), source }
    }
}

fn line(records: &[Record]) -> io::Result<String> {
    let text = serde_json::to_string(records).map_err(io::Error::other)?;
    Ok(format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes())))
}

/// The book after all whole lines, and where they end; or the number of a damaged line that is not the last.
fn replay(bytes: &[u8]) -> Result<(Book, usize), usize> {
    let mut book = Book::default();
    let mut end = 0;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let Some(records) = read(line) else {
            return if lines.peek().is_none() { Ok((book, end)) } else { Err(number + 1) };
        };
        for record in records {
            book.apply(record);
        }
        end += line.len();
    }
    Ok((book, end))
}

fn read(line: &[u8]) -> Option<Vec<Record>> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (checksum, text) = line.split_once(' ')?;
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    (checksum == crc32c::crc32c(text.as_bytes())).then(|| serde_json::from_str(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tidegate-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn numbers(next: u64) -> Vec<Record> {
        vec![Record::Numbers { level: Level::Broker, next }]
    }

    #[test]
    fn a_saved_book_is_read_and_a_torn_line_is_cut_off() {
        let folder = folder("torn");
        let (mut journal, book) = Journal::open(&folder).unwrap();
        assert_eq!(book, Book::default());
        for next in 2..4 {
            journal.keep(&numbers(next)).unwrap();
        }
        let whole = fs::read(folder.join(FILE)).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in first..=whole.len() {
            fs::write(folder.join(FILE), &whole[..length]).unwrap();
            let (_, book) = Journal::open(&folder).unwrap();
            assert_eq!(book.next(Level::Broker), if length == whole.len() { 3 } else { 2 });
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_line_before_the_last_one_is_refused() {
        let folder = folder("damaged");
        let (mut journal, _) = Journal::open(&folder).unwrap();
        journal.keep(&numbers(2)).unwrap();
        journal.keep(&numbers(3)).unwrap();
        let mut bytes = fs::read(folder.join(FILE)).unwrap();
        bytes[20] ^= 1;
        fs::write(folder.join(FILE), &bytes).unwrap();
        let error = Journal::open(&folder).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line: 1, .. }), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_long_journal_is_rewritten() {
        let folder = folder("long");
        let (mut journal, _) = Journal::open(&folder).unwrap();
        journal.length = MAX_JOURNAL;
        journal.keep(&numbers(7)).unwrap();
        assert!(journal.length < 1000);
        journal.keep(&numbers(8)).unwrap();
        let (_, read) = Journal::open(&folder).unwrap();
        assert_eq!(read.next(Level::Broker), 8);
        fs::remove_dir_all(folder).unwrap();
    }
}
