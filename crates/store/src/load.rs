//! Reads parts of the store while it runs.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::ReadError;
use crate::catalog::{Catalog, Shared};
use crate::disk::read_part;
use crate::journal::segment::{FIRST_FRAME, Frames, Segment};
use crate::operation::{Operation, Operations};
use crate::pace;
use crate::table::Cursor;

/// Receives the result of a load.
pub type LoadCallback = Box<dyn FnOnce(Result<Loaded, ReadError>) + Send>;

/// Bytes of the journal that are read at once for the index.
const PORTION: u64 = 4 * 1024 * 1024;

/// Entries that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Keys and values, in ascending order of the keys.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// The first key that did not fit, when there is one: where to go on.
    pub next: Option<Vec<u8>>,
}

/// The place of the newest operation of a key.
#[derive(Clone, Copy, Debug)]
enum EntryLocation {
    Value { segment: u64, offset: u64, length: u32, checksum: u32 },
    Deleted { segment: u64 },
}

impl EntryLocation {
    fn segment(&self) -> u64 {
        match self {
            Self::Value { segment, .. } | Self::Deleted { segment } => *segment,
        }
    }
}

/// Memory of an entry of the index beside its key, bytes, about: its slot in a tree of half-full nodes.
const INDEX_ENTRY_BYTES: u64 = 112;

/// The newest operations of a journal.
#[derive(Default)]
struct Index {
    places: BTreeMap<Box<[u8]>, EntryLocation>,
    key_bytes: u64,
}

impl Index {
    /// Memory that it takes, bytes, about.
    fn bytes(&self) -> u64 {
        self.key_bytes + self.places.len() as u64 * INDEX_ENTRY_BYTES
    }

    fn set(&mut self, key: &[u8], place: EntryLocation) {
        if let Some(known) = self.places.get_mut(key) {
            *known = place;
            return;
        }
        self.key_bytes += key.len() as u64;
        self.places.insert(key.into(), place);
    }

    /// Forgets the operations before a segment.
    fn forget_before(&mut self, oldest: u64) {
        self.places.retain(|key, place| {
            let stays = place.segment() >= oldest;
            self.key_bytes -= if stays { 0 } else { key.len() as u64 };
            stays
        });
    }
}

/// Answers loads. Its index of the journal extends only as far as the last load needed. Above `merge_memory_bytes` it
/// asks for a merge, which makes the journal short, or drops the index where a merge is not worth it.
pub(crate) struct Loader {
    shared: Arc<Shared>,
    index: Index,
    /// The last indexed segment.
    segment: u64,
    /// The offset in it.
    position: u64,
    /// The frame that comes next.
    number: u64,
    merged: u64,
    abandoned: u64,
    /// The value of `merged` when a merge was last asked for.
    asked: Option<u64>,
    /// Bytes of closed files read again, since the index was dropped, after the last merge that was asked for.
    read_again: u64,
}

impl Loader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let index = Index::default();
        Self { shared, index, segment: 0, position: 0, number: 0, merged: 0, abandoned: 0, asked: None, read_again: 0 }
    }

    /// True if there is no index, which is so until the first load.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.places.is_empty()
    }

    /// Gives back the index of the writes merged since the last load.
    pub(crate) fn forget_merged(&mut self) {
        let (merged, oldest) = {
            let catalog = self.shared.catalog();
            (catalog.merged, catalog.segments.first().map_or(u64::MAX, |segment| segment.id))
        };
        if self.merged != merged {
            self.index.forget_before(oldest);
            self.merged = merged;
        }
        self.note_bytes();
    }

    fn note_bytes(&self) {
        self.shared.status.index_bytes.store(self.index.bytes(), Relaxed);
    }

    /// Bounds an index that takes too much memory: asks for a merge, once until the journal was merged, or drops the
    /// index, which the next load builds again. A merge is worth it, too, once such loads have read as much as it reads.
    fn bound_index(&mut self, catalog: &Catalog) {
        let settings = &self.shared.settings;
        if self.index.bytes() <= settings.merge_memory_bytes {
            return;
        }
        let (closed, table) = (catalog.closed_bytes(), catalog.table_bytes());
        let is_repaid = closed > 0 && self.read_again >= table;
        if !is_repaid && !pace::is_worth_merging(settings, closed, table) {
            self.read_again += closed;
            self.forget();
            self.note_bytes();
        } else if self.asked != Some(self.merged) {
            self.asked = Some(self.merged);
            self.read_again = 0;
            self.shared.work.ask(|wanted| wanted.merge = true);
        }
    }

    /// The entries from a key on and below another one, up to a number of bytes of keys and values, but at least one
    /// entry.
    pub(crate) fn load(&mut self, from: &[u8], to: &[u8], max_bytes: usize) -> Result<Loaded, ReadError> {
        let catalog = self.shared.catalog().clone();
        if let Err(error) = self.catch_up(&catalog) {
            // After a failure the index is built again.
            self.forget();
            self.note_bytes();
            return Err(error);
        }
        self.note_bytes();
        self.shared.status.loads.fetch_add(1, Relaxed);
        let loaded = if from < to { self.collect(&catalog, from, to, max_bytes) } else { Ok(Loaded::default()) };
        self.bound_index(&catalog);
        loaded
    }

    /// The entries of an index that extends to all committed batches.
    fn collect(&self, catalog: &Catalog, from: &[u8], to: &[u8], max_bytes: usize) -> Result<Loaded, ReadError> {
        let mut table = match &catalog.table {
            Some(table) => Some(Cursor::at(Arc::clone(table), from)?),
            None => None,
        };
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(from), Bound::Excluded(to));
        let mut journal = self.index.places.range::<[u8], _>(bounds).peekable();
        let mut values = JournalValues::default();
        let (mut loaded, mut bytes) = (Loaded::default(), 0);
        loop {
            let stored = table.as_ref().and_then(Cursor::current).filter(|(key, _)| *key < to);
            let newer = journal.peek().map(|(key, place)| (&***key, **place));
            let (key, value) = match (stored, newer) {
                (None, None) => return Ok(loaded),
                (Some((key, value)), None) => (key, value.map(<[u8]>::to_vec)),
                (Some((key, value)), Some((newer_key, _))) if key < newer_key => (key, value.map(<[u8]>::to_vec)),
                (_, Some((key, place))) => (key, values.read(catalog, place)?),
            };
            if let Some(value) = value {
                let size = key.len() + value.len();
                if !loaded.entries.is_empty() && bytes + size > max_bytes {
                    loaded.next = Some(key.to_vec());
                    return Ok(loaded);
                }
                bytes += size;
                loaded.entries.push((key.to_vec(), value));
            }
            let (in_table, in_journal) =
                (stored.is_some_and(|(stored, _)| stored == key), newer.is_some_and(|(newer, _)| newer == key));
            if in_table && let Some(table) = &mut table {
                table.advance()?;
            }
            if in_journal {
                journal.next();
            }
        }
    }

    fn forget(&mut self) {
        self.index = Index::default();
        (self.segment, self.position, self.number) = (0, 0, 0);
    }

    /// Extends the index to all committed batches.
    fn catch_up(&mut self, catalog: &Catalog) -> Result<(), ReadError> {
        if self.abandoned != catalog.abandoned {
            // The index may name places that were given up.
            self.forget();
            self.abandoned = catalog.abandoned;
        }
        if self.merged != catalog.merged {
            let oldest = catalog.segments.first().map_or(u64::MAX, |segment| segment.id);
            self.index.forget_before(oldest);
            self.merged = catalog.merged;
        }
        for segment in &catalog.segments {
            if segment.id < self.segment {
                continue;
            }
            if segment.id > self.segment {
                (self.segment, self.position, self.number) = (segment.id, FIRST_FRAME, segment.first);
            }
            self.read(segment)?;
        }
        Ok(())
    }

    fn read(&mut self, segment: &Segment) -> Result<(), ReadError> {
        let name = segment.name();
        let end = segment.end();
        let mut portion = PORTION;
        while self.position < end {
            let length = portion.min(end - self.position);
            let bytes = read_part(&*segment.file, self.position, length);
            let bytes = bytes.map_err(|error| ReadError::reading(&name, error))?;
            let mut frames = Frames { bytes: &bytes, salt: segment.salt, position: 0, expected: self.number };
            for frame in frames.by_ref() {
                let payload = bytes.get(frame.payload.clone()).unwrap_or_default();
                let at = self.position + frame.payload.start as u64;
                note(&mut self.index, segment.id, at, payload);
            }
            if frames.position == 0 && length == end - self.position {
                let text = format!("frame {} is broken, but was written", self.number);
                return Err(ReadError::damaged(&name, self.position, text));
            }
            // A frame that is larger than a portion is read by a larger one.
            portion = if frames.position == 0 { portion.saturating_mul(2) } else { PORTION };
            self.number = frames.expected;
            self.position += frames.position as u64;
        }
        Ok(())
    }
}

/// Notes where the operations of a frame are.
fn note(index: &mut Index, segment: u64, at: u64, payload: &[u8]) {
    let mut operations = Operations::new(payload);
    while let Some(Ok(operation)) = operations.next() {
        let place = match operation {
            Operation::Delete { .. } => EntryLocation::Deleted { segment },
            Operation::Put { value, .. } => EntryLocation::Value {
                segment,
                offset: at + (operations.position() - value.len()) as u64,
                length: value.len() as u32,
                checksum: crc32c::crc32c(value),
            },
        };
        index.set(operation.key(), place);
    }
}

/// Bytes that are read at once for values that lie one behind the other.
const READ_AHEAD_MAX: u64 = 64 * 1024;

/// Reads values of the journal. Entries of a range lie close together as a rule, so more than a value is read at once
/// where the last read had more than one.
#[derive(Default)]
struct JournalValues {
    /// The part of a segment that was read last.
    segment: u64,
    offset: u64,
    bytes: Vec<u8>,
    /// Values found in it.
    found: usize,
    /// Bytes to read at once.
    ahead: u64,
}

impl JournalValues {
    fn read(&mut self, catalog: &Catalog, place: EntryLocation) -> Result<Option<Vec<u8>>, ReadError> {
        let EntryLocation::Value { segment, offset, length, checksum } = place else {
            return Ok(None);
        };
        let name = || crate::journal::segment::name(segment);
        if self.part(segment, offset, length).is_none() {
            let found = catalog.segments.binary_search_by_key(&segment, |segment| segment.id);
            let Some(file) = found.ok().and_then(|index| catalog.segments.get(index)) else {
                return Err(ReadError::Missing { file: name() });
            };
            self.fill(file, offset, u64::from(length)).map_err(|error| ReadError::reading(&name(), error))?;
        }
        let value = self.part(segment, offset, length).unwrap_or_default().to_vec();
        if crc32c::crc32c(&value) != checksum {
            return Err(ReadError::damaged(&name(), offset, "a value does not match its checksum"));
        }
        self.found += 1;
        Ok(Some(value))
    }

    /// A value, if it was read with another.
    fn part(&self, segment: u64, offset: u64, length: u32) -> Option<&[u8]> {
        let begin = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = begin.checked_add(usize::try_from(length).ok()?)?;
        self.bytes.get(begin..end).filter(|_| segment == self.segment)
    }

    /// Reads a part of a segment from an offset on, at least `length` bytes.
    fn fill(&mut self, segment: &Segment, offset: u64, length: u64) -> std::io::Result<()> {
        let is_close = segment.id == self.segment && offset.abs_diff(self.offset) <= READ_AHEAD_MAX;
        self.ahead = match self.found {
            0 | 1 if !is_close => 0,
            _ => (self.ahead * 2).clamp(READ_AHEAD_MAX / 16, READ_AHEAD_MAX),
        };
        let rest = segment.end().saturating_sub(offset);
        self.bytes = read_part(&*segment.file, offset, length.max(self.ahead.min(rest)))?;
        (self.segment, self.offset, self.found) = (segment.id, offset, 0);
        Ok(())
    }
}
