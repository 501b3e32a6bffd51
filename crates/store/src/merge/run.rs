//! A portion of the journal, sorted in memory.

use std::cmp::Ordering;

use super::entry::Entry;
use super::lanes::Lanes;
use crate::ReadError;
use crate::disk::read_part;
use crate::journal::segment::{FIRST_FRAME, Frames, Segment};
use crate::operation::{Operation, Operations};

/// The bytes of some segments and where their operations are.
#[derive(Default)]
pub(crate) struct Run {
    files: Vec<Vec<u8>>,
    lanes: Lanes,
    /// Operations on keys that have no lane.
    others: Vec<Other>,
    /// All operations.
    operations: u64,
}

/// Memory for the place of an operation until it is sorted, bytes, about.
pub(crate) const BYTES_PER_OPERATION: u64 = 64;

/// An operation that has to be sorted.
#[derive(Clone, Copy)]
struct Other {
    /// The first bytes of the key, so that numbers compare as keys do, and keys are seldom looked at.
    prefix: u128,
    entry: Entry,
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
    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> u64 {
        let files: u64 = self.files.iter().map(|file| file.len() as u64).sum();
        files + self.operations * BYTES_PER_OPERATION
    }

    /// Adds the committed frames of a segment, which are newer than those before, up to a number.
    pub(crate) fn read(&mut self, segment: &Segment, limit: Option<u64>) -> Result<(), ReadError> {
        let name = segment.name();
        let (begin, end) = (FIRST_FRAME, segment.end().max(FIRST_FRAME));
        let bytes = read_part(&*segment.file, begin, end - begin).map_err(|error| ReadError::reading(&name, error))?;
        let too_long = || ReadError::damaged(&name, begin, "no file of a store has more than 4 GiB");
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
            let key = operation.key();
            let entry = Entry {
                file,
                key: (begin + 3) as u32,
                value_length: value.len() as u32,
                key_length: key.len() as u16,
                is_put,
            };
            self.operations += 1;
            if !self.lanes.take(key, &entry) {
                self.others.push(Other { prefix: prefix(key), entry });
            }
        }
    }

    /// Sorts it and leaves the newest operation of each key.
    pub(crate) fn sorted(mut self) -> SortedRun {
        let others = self.sort_others();
        let numbered = std::mem::take(&mut self.lanes).sorted();
        let entries = if others.is_empty() { numbered } else { self.merge(&numbered, &others) };
        SortedRun { files: self.files, entries, position: 0 }
    }

    fn sort_others(&mut self) -> Vec<Entry> {
        let files = &self.files;
        // Of one key the newest comes last.
        self.others.sort_unstable_by(|left, right| {
            let (one, next) = (&left.entry, &right.entry);
            compare(files, left, right).then(one.file.cmp(&next.file)).then(one.key.cmp(&next.key))
        });
        let keys = self.others.chunk_by(|one, next| compare(files, one, next).is_eq());
        keys.filter_map(|operations| operations.last().map(|other| other.entry)).collect()
    }

    /// Two sequences as one. No key is in both.
    fn merge(&self, numbered: &[Entry], others: &[Entry]) -> Vec<Entry> {
        let mut merged = Vec::with_capacity(numbered.len() + others.len());
        let mut rest = numbered;
        for other in others {
            let before = rest.partition_point(|entry| key(&self.files, entry) < key(&self.files, other));
            let (lower, higher) = rest.split_at(before);
            merged.extend_from_slice(lower);
            merged.push(*other);
            rest = higher;
        }
        merged.extend_from_slice(rest);
        merged
    }
}

/// Compares keys.
fn compare(files: &[Vec<u8>], left: &Other, right: &Other) -> Ordering {
    // A short key is filled up with zeros: of two that look the same then, the shorter one is the lower.
    left.prefix.cmp(&right.prefix).then_with(|| {
        let (left, right) = (&left.entry, &right.entry);
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
    files: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    position: usize,
}

impl SortedRun {
    pub(crate) fn current(&self) -> Option<(&[u8], Option<&[u8]>)> {
        let entry = self.entries.get(self.position)?;
        let begin = entry.key as usize + usize::from(entry.key_length) + 4;
        let file = self.files.get(entry.file as usize)?;
        let value = if entry.is_put { Some(file.get(begin..begin + entry.value_length as usize)?) } else { None };
        Some((key(&self.files, entry), value))
    }

    pub(crate) fn advance(&mut self) {
        self.position += 1;
    }
}

#[cfg(test)]
mod tests;
