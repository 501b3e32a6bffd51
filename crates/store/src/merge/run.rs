//! A portion of the journal, sorted in memory.

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

/// Where an operation is.
#[derive(Clone, Copy)]
struct Entry {
    file: u32,
    key_length: u16,
    is_put: bool,
    key: u32,
    value: u32,
    value_length: u32,
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
            let key_length = operation.key().len();
            let end = at + operations.position();
            let (is_put, value_length) = match operation {
                Operation::Put { value, .. } => (true, value.len()),
                Operation::Delete { .. } => (false, 0),
            };
            self.entries.push(Entry {
                file,
                key_length: key_length as u16,
                is_put,
                key: (begin + 3) as u32,
                value: (end - value_length) as u32,
                value_length: value_length as u32,
            });
        }
    }

    /// Sorts it and leaves the newest operation of each key.
    pub(crate) fn sorted(mut self) -> SortedRun {
        let files = &self.files;
        // Stable, so that of one key the newest comes last.
        self.entries.sort_by(|left, right| key(files, left).cmp(key(files, right)));
        let mut kept = 0;
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            let newer = self.entries.get(index + 1);
            if newer.is_none_or(|newer| key(files, newer) != key(files, &entry)) {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        SortedRun { run: self, position: 0 }
    }
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
        let begin = entry.value as usize;
        let file = self.run.files.get(entry.file as usize)?;
        let value = file.get(begin..begin + entry.value_length as usize)?;
        Some((key(&self.run.files, entry), entry.is_put.then_some(value)))
    }

    pub(crate) fn advance(&mut self) {
        self.position += 1;
    }
}
