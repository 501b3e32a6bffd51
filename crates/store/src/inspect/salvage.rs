//! Reads the readable parts of a damaged store, and reports the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{InspectError, names};
use crate::ReadError;
use crate::disk::{Disk, read_part};
use crate::journal::segment::{self, FIRST_FRAME, Frames, Later, Segment};
use crate::manifest::Manifest;
use crate::operation::Operations;
use crate::recovery::number_of;
use crate::table::{self, Cursor, Table};

/// A part that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub file: String,
    /// The damage, with its place.
    pub problem: String,
}

/// The saved entries, in memory: damaged files cannot be streamed in order.
#[derive(Default)]
pub(crate) struct Saved {
    pub(crate) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) skipped: Vec<Skipped>,
}

/// Reads all readable parts. A delete in an unreadable part is lost, so that an old entry may return.
pub(crate) fn salvage(disk: &dyn Disk) -> Result<Saved, InspectError> {
    let mut saved = Saved::default();
    let (tables, segments) = match Manifest::load(disk) {
        Ok(Some(manifest)) => {
            let segments: Vec<u64> = manifest.segments.iter().map(|(id, _)| *id).collect();
            (manifest.table.into_iter().collect(), segments)
        }
        Ok(None) => {
            saved.skip("MANIFEST", "it is missing: all tables and journal files are taken");
            from_names(&names(disk)?)
        }
        Err(error) => {
            saved.skip("MANIFEST", error.to_string());
            from_names(&names(disk)?)
        }
    };
    if tables.is_empty() && segments.is_empty() {
        return Err(InspectError::NoStore);
    }
    for generation in tables {
        saved.read_table(disk, generation);
    }
    let mut opened: Vec<Segment> = Vec::new();
    for id in segments {
        let name = segment::name(id);
        let file = disk.open(&name).map_err(|error| ReadError::reading(&name, error));
        match file.and_then(|file| segment::open(id, file)) {
            Ok(segment) => opened.push(segment),
            Err(error) => saved.skip(&name, error.to_string()),
        }
    }
    opened.sort_by_key(|segment| (segment.first, segment.id));
    for (index, segment) in opened.iter().enumerate() {
        saved.read_segment(segment, opened.get(index + 1).map(|next| next.first));
    }
    Ok(saved)
}

/// Without a manifest: the files by their names, the oldest first.
fn from_names(names: &[String]) -> (Vec<u64>, Vec<u64>) {
    let of = |prefix: &str| -> Vec<u64> {
        names.iter().filter(|name| name.starts_with(prefix)).filter_map(|name| number_of(name)).collect()
    };
    (of("table-"), of("journal-"))
}

impl Saved {
    fn skip(&mut self, file: &str, problem: impl Into<String>) {
        self.skipped.push(Skipped { file: file.to_owned(), problem: problem.into() });
    }

    fn note(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => drop(self.entries.insert(key.to_vec(), value.to_vec())),
            None => drop(self.entries.remove(key)),
        }
    }

    fn read_table(&mut self, disk: &dyn Disk, generation: u64) {
        let name = table::name(generation);
        let table = match Table::open(disk, &name, generation) {
            Ok(table) => Arc::new(table),
            Err(error) => return self.search_table(disk, &name, &error),
        };
        let mut cursor = Cursor::before(table);
        let mut problems = Vec::new();
        while cursor.advance_or_skip(&mut |error| problems.push(error.to_string())) {
            if let Some((key, value)) = cursor.current() {
                self.note(key, value);
            }
        }
        for problem in problems {
            self.skip(&name, problem);
        }
    }

    /// Without an index: looks for blocks with a right checksum.
    fn search_table(&mut self, disk: &dyn Disk, name: &str, error: &ReadError) {
        let read = disk.open(name).and_then(|file| {
            let length = file.length()?;
            read_part(&*file, 0, length)
        });
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => return self.skip(name, error.to_string()),
        };
        let mut blocks = 0_u64;
        for payload in table::search_blocks(&bytes) {
            blocks += 1;
            for operation in Operations::new(payload).map_while(Result::ok) {
                self.note(operation.key(), operation.value());
            }
        }
        self.skip(name, format!("{error}; {blocks} whole blocks were found in it"));
    }

    fn read_segment(&mut self, segment: &Segment, limit: Option<u64>) {
        let name = segment.name();
        let read = segment
            .file
            .length()
            .and_then(|length| read_part(&*segment.file, FIRST_FRAME.min(length), length.saturating_sub(FIRST_FRAME)));
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => return self.skip(&name, error.to_string()),
        };
        let within = |number: u64| limit.is_none_or(|limit| number < limit);
        let mut frames = Frames { bytes: &bytes, salt: segment.salt, position: 0, expected: segment.first };
        while within(frames.expected) {
            if let Some(frame) = frames.next() {
                let payload = bytes.get(frame.payload).unwrap_or_default();
                for operation in Operations::new(payload).map_while(Result::ok) {
                    self.note(operation.key(), operation.value());
                }
                continue;
            }
            let later = Later::new(&bytes, frames.position, frames.expected, segment.salt).next();
            let later = later.map(|(at, frame)| (at, frame.number));
            let Some((at, number)) = later.filter(|(_, number)| within(*number)) else {
                // A frame that a later file continues was complete once. After the newest frame, no frame can be
                // missing.
                if let Some(limit) = limit {
                    let at = FIRST_FRAME + frames.position as u64;
                    self.skip(&name, format!("frames {} to {} at byte {at}", frames.expected, limit - 1));
                }
                return;
            };
            let place = FIRST_FRAME + frames.position as u64;
            self.skip(&name, format!("frames {} to {} at byte {place}", frames.expected, number - 1));
            (frames.position, frames.expected) = (at, number);
        }
    }
}
