//! Opens a store: reads the files of the last process, and continues from their state.

use std::sync::Arc;

use crate::catalog::{Catalog, Shared};
use crate::disk::{Disk, LockGuard, read_part};
use crate::journal::frame;
use crate::journal::segment::{self, FIRST_FRAME, Frames, Segment, Tail};
use crate::journal_writer::JournalWriter;
use crate::manifest::{self, Manifest};
use crate::operation;
use crate::table::{self, Table};
use crate::{LockError, OpenError, ReadError, Settings, SweepFactory};

/// The findings when a store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// There was no store yet.
    pub created: bool,
    /// The last process ended as it should.
    pub clean: bool,
    /// Files of the journal that were read.
    pub segments: u64,
    /// Batches found in them.
    pub frames: u64,
    /// Bytes of these batches.
    pub bytes: u64,
    /// Entries of the table.
    pub table_entries: u64,
    /// The uncommitted end of the journal, which is dropped.
    pub torn: Option<Torn>,
    /// Files of interrupted work that were removed.
    pub removed: Vec<String>,
}

/// An end of the journal that was half written when the last process or the power went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub file: String,
    /// The end of its committed part.
    pub offset: u64,
    /// Bytes behind that.
    pub bytes: u64,
    /// Whole batches among them, behind a broken one.
    pub frames: u64,
}

/// The result of opening.
pub(crate) struct Recovered {
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: JournalWriter,
    pub(crate) lock: LockGuard,
    pub(crate) report: RecoveryReport,
}

/// The files of a store, read and checked, before anything is written.
pub(crate) struct Found {
    pub(crate) manifest: Manifest,
    pub(crate) table: Option<Arc<Table>>,
    /// With the end of the committed frames.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) journal: Journal,
}

/// The content of the journal.
#[derive(Default)]
pub(crate) struct Journal {
    /// The number of the next frame.
    pub(crate) next: u64,
    /// Frames below are known to be synced.
    pub(crate) durable: u64,
    /// The frames from `durable` on. They may be on the disk, or only in the system's memory.
    pub(crate) unsynced: Vec<u8>,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) clean: bool,
    pub(crate) torn: Option<Torn>,
}

/// Opens a store, or creates one.
pub(crate) fn recover(disk: Arc<dyn Disk>, settings: Settings, sweep: SweepFactory) -> Result<Recovered, OpenError> {
    let lock = disk.lock().map_err(|error| match error {
        LockError::Held { holder } => OpenError::Locked { holder },
        LockError::Io(error) => OpenError::writing("LOCK", error),
    })?;
    let names = disk.list().map_err(|error| ReadError::reading("the directory", error))?;
    let mut report = RecoveryReport::default();
    let manifest = if let Some(manifest) = Manifest::load(&*disk)? {
        manifest
    } else {
        require_empty(&names)?;
        report.created = true;
        let manifest = Manifest::empty();
        manifest.save(&*disk)?;
        manifest
    };
    let found = read(&*disk, manifest)?;
    report.clean = found.journal.clean || report.created;
    report.segments = found.segments.len() as u64;
    report.frames = found.journal.frames;
    report.bytes = found.journal.bytes;
    report.table_entries = found.table.as_ref().map_or(0, |table| table.entries);
    report.torn.clone_from(&found.journal.torn);
    go_on(disk, settings, sweep, found, &names, report, lock)
}

/// Without a manifest there is no file that one would name.
pub(crate) fn require_empty(names: &[String]) -> Result<(), ReadError> {
    let ours = |name: &String| name.starts_with("journal-") || name.starts_with("table-");
    if names.iter().any(ours) {
        return Err(ReadError::Missing { file: manifest::NAME.to_owned() });
    }
    Ok(())
}

/// Creates a file for new frames, and removes unneeded files.
fn go_on(
    disk: Arc<dyn Disk>,
    settings: Settings,
    sweep: SweepFactory,
    found: Found,
    names: &[String],
    mut report: RecoveryReport,
    lock: LockGuard,
) -> Result<Recovered, OpenError> {
    let Found { manifest, table, mut segments, journal } = found;
    // A file without frames of its own is dropped, so that many starts do not leave many files.
    segments.retain(|segment| segment.end() > FIRST_FRAME && segment.first < journal.durable);
    let kept: Vec<String> =
        segments.iter().map(|segment| segment.name()).chain(table.iter().map(|table| table.name.clone())).collect();
    let spares = names.iter().filter(|name| name.starts_with("spare-") && usable(&*disk, name, settings.segment_bytes));
    let spares: Vec<String> = spares.take(2).cloned().collect();
    let highest = names.iter().filter_map(|name| number_of(name)).max().unwrap_or(0);
    let catalog = Catalog {
        table,
        merged: manifest.merged,
        next: manifest.next.max(highest.saturating_add(1)),
        segments,
        spares: spares.clone(),
        orphans: Vec::new(),
        abandoned: 0,
    };
    let shared = Arc::new(Shared::new(disk, settings, sweep, catalog));
    let mut writer = JournalWriter::new(Arc::clone(&shared), journal.durable, journal.next, journal.unsynced);
    writer.begin()?;
    for name in names.iter().filter(|name| number_of(name).is_some()) {
        if !kept.contains(name) && !spares.contains(name) && shared.disk.remove(name).is_ok() {
            report.removed.push(name.clone());
        }
    }
    Ok(Recovered { shared, writer, lock, report })
}

fn usable(disk: &dyn Disk, name: &str, bytes: u64) -> bool {
    disk.open(name).and_then(|file| file.length()).is_ok_and(|length| length == bytes)
}

/// The number in the name of one of our files.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (kind, rest) = name.split_once('-')?;
    let (number, ending) = rest.split_once('.')?;
    let known = [("journal", "log"), ("spare", "log"), ("table", "tbl"), ("run", "tmp")];
    if !known.contains(&(kind, ending)) {
        return None;
    }
    number.parse().ok()
}

/// Reads and checks the files that a manifest names: all frames of the journal, and the table's index.
pub(crate) fn read(disk: &dyn Disk, manifest: Manifest) -> Result<Found, ReadError> {
    let table = match manifest.table {
        Some(generation) => Some(Arc::new(open_table(disk, generation, manifest.merged)?)),
        None => None,
    };
    let mut segments = Vec::new();
    for (id, first) in &manifest.segments {
        segments.push(Arc::new(open_segment(disk, *id, *first)?));
    }
    let mut journal = Journal { next: manifest.merged, durable: manifest.merged, clean: true, ..Journal::default() };
    for (index, segment) in segments.iter().enumerate() {
        let limit = segments.get(index + 1).map(|next| next.first);
        journal.read(segment, limit)?;
    }
    Ok(Found { manifest, table, segments, journal })
}

pub(crate) fn open_table(disk: &dyn Disk, generation: u64, merged: u64) -> Result<Table, ReadError> {
    let table = Table::open(disk, &table::name(generation), generation)?;
    if table.merged != merged {
        let text = format!("the manifest says merged up to {merged}, the table up to {}", table.merged);
        return Err(ReadError::damaged(&table.name, table.bytes, text));
    }
    Ok(table)
}

pub(crate) fn open_segment(disk: &dyn Disk, id: u64, first: u64) -> Result<Segment, ReadError> {
    let name = segment::name(id);
    let file = disk.open(&name).map_err(|error| ReadError::reading(&name, error))?;
    let segment = segment::open(id, file)?;
    if segment.first != first {
        let text = format!("the manifest says that it begins with {first}, its header says {}", segment.first);
        return Err(ReadError::damaged(&name, 24, text));
    }
    Ok(segment)
}

/// The frames of a segment, as far as they are right.
pub(crate) struct Scanned {
    pub(crate) bytes: Vec<u8>,
    /// The offset of each frame in the bytes, with its number and the number up to which it declares frames synced.
    pub(crate) frames: Vec<(usize, frame::Frame)>,
    /// The end of the frames in the bytes.
    pub(crate) end: usize,
    pub(crate) next: u64,
}

/// Reads the frames of a segment up to a number.
pub(crate) fn scan(segment: &Segment, limit: Option<u64>) -> Result<Scanned, ReadError> {
    let name = segment.name();
    let reading = |error| ReadError::reading(&name, error);
    let length = segment.file.length().map_err(reading)?;
    let bytes =
        read_part(&*segment.file, FIRST_FRAME.min(length), length.saturating_sub(FIRST_FRAME)).map_err(reading)?;
    let mut frames = Vec::new();
    let mut walk = Frames { bytes: &bytes, salt: segment.salt, position: 0, expected: segment.first };
    while limit.is_none_or(|limit| walk.expected < limit) {
        let begin = walk.position;
        let Some(frame) = walk.next() else {
            break;
        };
        frames.push((begin, frame));
    }
    let (end, next) = (walk.position, walk.expected);
    Ok(Scanned { bytes, frames, end, next })
}

impl Journal {
    fn read(&mut self, segment: &Segment, limit: Option<u64>) -> Result<(), ReadError> {
        let name = segment.name();
        if segment.first != self.next {
            let text = format!("it begins with frame {}, but frame {} is the next", segment.first, self.next);
            return Err(ReadError::damaged(&name, 24, text));
        }
        let scanned = scan(segment, limit)?;
        let end = FIRST_FRAME + scanned.end as u64;
        if let Some(limit) = limit.filter(|limit| scanned.next < *limit) {
            let text = format!("frame {} is broken, but frames up to {limit} were written", scanned.next);
            return Err(ReadError::damaged(&name, end, text));
        }
        for (_, frame) in &scanned.frames {
            let payload = scanned.bytes.get(frame.payload.clone()).unwrap_or_default();
            if operation::count(payload).is_err() {
                let at = FIRST_FRAME + frame.payload.start as u64;
                return Err(ReadError::damaged(&name, at, format!("frame {} is not made of operations", frame.number)));
            }
        }
        segment.set_end(end);
        self.next = scanned.next;
        self.frames += scanned.frames.len() as u64;
        self.bytes += scanned.end as u64;
        self.durable = limit.unwrap_or(segment.first);
        if limit.is_none() {
            self.read_end(segment, &scanned)?;
        }
        Ok(())
    }

    /// Reads the end of the newest file: the synced frames, the possibly synced ones, and a torn one.
    fn read_end(&mut self, segment: &Segment, scanned: &Scanned) -> Result<(), ReadError> {
        let end = FIRST_FRAME + scanned.end as u64;
        let Tail { bytes, frames, durable, witness, work } =
            segment::tail(&scanned.bytes, scanned.end, scanned.next, segment.salt);
        tracing::debug!(
            headers = work.headers,
            hashed = work.hashed,
            "looked for frames behind the end of the journal"
        );
        if work.gave_up {
            tracing::warn!(
                file = %segment.name(), offset = end,
                "this file of an earlier version has so much that looks like frames behind its last one that not all of \
                 it was tried: it is taken for an end that was half written; files of this version do not have that"
            );
        }
        if durable > scanned.next {
            let text = format!(
                "frame {} is broken, but a frame at byte {} says that all below {durable} were written",
                scanned.next,
                FIRST_FRAME + witness
            );
            return Err(ReadError::damaged(&segment.name(), end, text));
        }
        if bytes > 0 {
            self.torn = Some(Torn { file: segment.name(), offset: end, bytes, frames });
        }
        // Only the end of a journal is an empty frame; the next process takes its number again.
        let last = scanned.frames.last().filter(|(_, frame)| frame.payload.is_empty() && bytes == 0);
        self.clean = last.is_some();
        let end = last.map_or(scanned.end, |(begin, _)| *begin);
        segment.set_end(FIRST_FRAME + end as u64);
        self.next -= u64::from(self.clean);
        self.frames -= u64::from(self.clean);
        let marks = scanned.frames.iter().map(|(_, frame)| frame.durable).max();
        self.durable = self.durable.max(marks.unwrap_or(0)).min(self.next);
        let unsynced = scanned.frames.iter().find(|(_, frame)| frame.number >= self.durable);
        if let Some((begin, _)) = unsynced {
            self.unsynced = scanned.bytes.get(*begin..end).unwrap_or_default().to_vec();
            segment.set_end(FIRST_FRAME + *begin as u64);
        }
        Ok(())
    }
}
