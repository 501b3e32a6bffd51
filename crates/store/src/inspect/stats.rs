//! The number and size of a store's entries.

use std::sync::Arc;

use super::{InspectError, at_rest, find, is_ours, lock, names};
use crate::disk::Disk;
use crate::merge::run::BYTES_PER_OPERATION;
use crate::operation::Operations;
use crate::recovery::scan;
use crate::{MergeError, ReadError, store};

/// Live entries of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindStats {
    /// How many.
    pub entries: u64,
    /// Bytes of keys.
    pub key_bytes: u64,
    /// Bytes of values.
    pub value_bytes: u64,
    /// The longest row of entries of this kind without another kind between them.
    pub longest_row: Row,
    /// The entries up to the last one of each row that stays in memory.
    pub in_memory: Row,
}

/// Entries whose keys follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// How many.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl Row {
    fn add(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes as u64;
    }

    fn append(&mut self, row: Self) {
        self.entries += row.entries;
        self.bytes += row.bytes;
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryKind {
    /// The name of its kind.
    pub name: &'static str,
    /// Whether it stays in memory after a start, and with it the entries of its kind directly before it.
    pub stays_in_memory: bool,
}

/// The content of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsReport {
    /// Name and bytes of each file.
    pub files: Vec<(String, u64)>,
    /// By their kinds, in the order of the first key of each.
    pub kinds: Vec<(&'static str, KindStats)>,
    /// Entries of the table.
    pub table_entries: u64,
    /// Batches of the journal.
    pub journal_batches: u64,
    /// Operations of the journal.
    pub journal_operations: u64,
    /// Bytes of the journal's frames.
    pub journal_bytes: u64,
    /// Bytes of the longest file of the journal, which a start reads as a whole.
    pub longest_file: u64,
    /// Memory that the table's index takes, bytes.
    pub index_bytes: u64,
}

impl StatsReport {
    /// Live entries.
    pub fn live(&self) -> u64 {
        self.kinds.iter().map(|(_, kind)| kind.entries).sum()
    }

    /// Entries and operations that a merge would drop.
    pub fn dead(&self) -> u64 {
        (self.table_entries + self.journal_operations).saturating_sub(self.live())
    }

    /// Memory that a start needs, bytes: the index, and one file of the journal or, later, the part of the journal that
    /// is sorted at once with the positions of its operations.
    pub fn reading_bytes(&self, merge_memory: u64) -> u64 {
        let operations = |bytes: u64| bytes.saturating_mul(self.journal_operations) / self.journal_bytes.max(1);
        let places = |bytes: u64| operations(bytes) * BYTES_PER_OPERATION;
        // Only the bytes of the last file of a portion are known before its operations are counted.
        let portion = merge_memory.max(self.longest_file) + places(self.longest_file);
        let sorted = portion.min(self.journal_bytes + places(self.journal_bytes));
        self.index_bytes + self.longest_file.max(sorted)
    }

    fn of_kind(&mut self, name: &'static str) -> Option<&mut KindStats> {
        let found = self.kinds.iter().position(|(known, _)| *known == name);
        let place = found.unwrap_or_else(|| {
            self.kinds.push((name, KindStats::default()));
            self.kinds.len() - 1
        });
        self.kinds.get_mut(place).map(|(_, kind)| kind)
    }
}

/// Names the kind of an entry, by its key and its value; there are few kinds.
pub type KindOf<'a> = dyn Fn(&[u8], &[u8]) -> EntryKind + 'a;

/// Measures a store and adds up the entries for which `kind_of` gives the same name.
///
/// # Errors
/// When it is in use, does not exist, cannot be read or is damaged.
pub fn stats(disk: &Arc<dyn Disk>, kind_of: &KindOf<'_>) -> Result<StatsReport, InspectError> {
    let _lock = lock(&**disk)?;
    let found = find(&**disk)?;
    let mut report = StatsReport {
        table_entries: found.table.as_ref().map_or(0, |table| table.entries),
        journal_batches: found.journal.frames,
        journal_bytes: found.journal.bytes,
        index_bytes: found.table.as_ref().map_or(0, |table| table.index_bytes()),
        ..StatsReport::default()
    };
    for name in names(&**disk)?.into_iter().filter(|name| is_ours(name)) {
        let length = disk.open(&name).and_then(|file| file.length());
        let length = length.map_err(|error| ReadError::reading(&name, error))?;
        report.files.push((name, length));
    }
    for (index, segment) in found.segments.iter().enumerate() {
        let limit = found.segments.get(index + 1).map(|next| next.first);
        let scanned = scan(segment, limit)?;
        report.longest_file = report.longest_file.max(scanned.bytes.len() as u64);
        for (_, frame) in &scanned.frames {
            let payload = scanned.bytes.get(frame.payload.clone()).unwrap_or_default();
            report.journal_operations += Operations::new(payload).count() as u64;
        }
    }
    let shared = at_rest(Arc::clone(disk), &found);
    let (mut last, mut row, mut behind) = ("", Row::default(), Row::default());
    let visited = store::visit_all(&shared, &mut |key, value| {
        let EntryKind { name, stays_in_memory } = kind_of(key, value);
        if name != last {
            (last, row, behind) = (name, Row::default(), Row::default());
        }
        row.add(key.len() + value.len());
        behind.add(key.len() + value.len());
        if let Some(kind) = report.of_kind(name) {
            if stays_in_memory {
                kind.in_memory.append(std::mem::take(&mut behind));
            }
            if row.bytes > kind.longest_row.bytes {
                kind.longest_row = row;
            }
            kind.entries += 1;
            kind.key_bytes += key.len() as u64;
            kind.value_bytes += value.len() as u64;
        }
    });
    visited.map_err(|error| match error {
        MergeError::Read(error) => InspectError::Read(error),
        MergeError::Write(error) => InspectError::Open(error),
    })?;
    Ok(report)
}
