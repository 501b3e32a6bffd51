//! A portion of the journal, sorted in memory.

use std::cmp::Ordering;

use crate::ReadError;
use crate::disk::read_part;
use crate::journal::segment::{FIRST_FRAME, Frames, Segment};
use crate::operation::{Operation, Operations};

/// The bytes of some segments and where their operations are.
#[derive(Default)]
pub(crate) struct Run {
    files: Vec<Vec<u8>>,
    entries: Vec<Entry>,
}

/// Where an operation is, and enough of its key to seldom look there while sorting.
#[derive(Clone, Copy)]
struct Entry {
    /// The first bytes of the key, so that numbers compare as keys do.
    prefix: u128,
    /// Which of the files, the oldest first.
    file: u32,
    /// Where the key begins in the file.
    key: u32,
    value_length: u32,
    key_length: u16,
    is_put: bool,
}

/// Bytes of a key that are kept beside its place.
const PREFIX: usize = size_of::<u128>();

fn prefix(key: &[u8]) -> u128 {
    if let Some(bytes) = key.first_chunk::<PREFIX>() {
        return u128::from_be_bytes(*bytes);
    }
    let mut bytes = [0; PREFIX];
    bytes[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(bytes)
}

impl Run {
    /// Bytes that it takes, but for the places of operations.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len() as u64).sum()
    }

    /// Adds the committed frames of a segment, which are newer than those before, up to a number.
    pub(crate) fn read(&mut self, segment: &Segment, limit: Option<u64>) -> Result<(), ReadError> {
        let name = segment.name();
        let (begin, end) = (FIRST_FRAME, segment.end().max(FIRST_FRAME));
        let bytes = read_part(&*segment.file, begin, end - begin).map_err(|error| ReadError::reading(&name, error))?;
        let too_long = || ReadError::damaged(&name, begin, "a file of more than 4 GiB is none of ours");
        u32::try_from(bytes.len()).map_err(|_| too_long())?;
        let file = u32::try_from(self.files.len()).map_err(|_| too_long())?;
        let mut frames = Frames { bytes: &bytes, salt: segment.salt, position: 0, expected: segment.first };
        while limit.is_none_or(|limit| frames.expected < limit) {
            let Some(frame) = frames.next() else {
                break;
            };
            let payload = bytes.get(frame.payload.clone()).unwrap_or_default();
            let at = frame.payload.start;
            self.add(file, at, payload)
                .ok_or_else(|| ReadError::damaged(&name, begin + at as u64, "a frame is not made of operations"))?;
        }
        if frames.position < bytes.len() && limit.is_none_or(|limit| frames.expected < limit) {
            let at = begin + frames.position as u64;
            return Err(ReadError::damaged(&name, at, format!("frame {} is not there", frames.expected)));
        }
        self.files.push(bytes);
        Ok(())
    }

    fn add(&mut self, file: u32, at: usize, payload: &[u8]) -> Option<()> {
        let mut operations = Operations::new(payload);
        loop {
            let begin = at + operations.position();
            let Some(operation) = operations.next() else {
                return Some(());
            };
            let operation = operation.ok()?;
            let (is_put, value) = match operation {
                Operation::Put { value, .. } => (true, value),
                Operation::Delete { .. } => (false, &[][..]),
            };
            self.entries.push(Entry {
                prefix: prefix(operation.key()),
                file,
                key: (begin + 3) as u32,
                value_length: value.len() as u32,
                key_length: operation.key().len() as u16,
                is_put,
            });
        }
    }

    /// Sorts it and leaves the newest operation of each key.
    pub(crate) fn sorted(mut self) -> SortedRun {
        let files = &self.files;
        // Of one key the newest comes last.
        self.entries.sort_unstable_by(|left, right| {
            compare(files, left, right).then(left.file.cmp(&right.file)).then(left.key.cmp(&right.key))
        });
        let mut kept = 0;
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            let newer = self.entries.get(index + 1);
            if newer.is_none_or(|newer| compare(files, newer, &entry).is_ne()) {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        SortedRun { run: self, position: 0 }
    }
}

/// Compares keys.
fn compare(files: &[Vec<u8>], left: &Entry, right: &Entry) -> Ordering {
    // A short key is filled up with zeros: of two that look the same then, the shorter one is the lower.
    left.prefix.cmp(&right.prefix).then_with(|| {
        if usize::from(left.key_length.max(right.key_length)) <= PREFIX {
            return left.key_length.cmp(&right.key_length);
        }
        key(files, left).cmp(key(files, right))
    })
}

fn key<'a>(files: &'a [Vec<u8>], entry: &Entry) -> &'a [u8] {
    let begin = entry.key as usize;
    let file = files.get(entry.file as usize).map_or(&[][..], Vec::as_slice);
    file.get(begin..begin + usize::from(entry.key_length)).unwrap_or_default()
}

/// A run in the order of its keys.
pub(crate) struct SortedRun {
    run: Run,
    position: usize,
}

impl SortedRun {
    pub(crate) fn current(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let entry = self.run.entries.get(self.position)?;
        let begin = entry.key as usize + usize::from(entry.key_length) + 4;
        let file = self.run.files.get(entry.file as usize)?;
        let value = if entry.is_put { Some(file.get(begin..begin + entry.value_length as usize)?) } else { None };
        Some((key(&self.run.files, entry), value))
    }

    pub(crate) fn advance(&mut self) {
        self.position += 1;
    }
}
