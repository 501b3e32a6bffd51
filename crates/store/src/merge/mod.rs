//! Merges closed files of the journal and the table into a new table.

mod entry;
mod lanes;
pub(crate) mod run;
pub(crate) mod source;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use source::{Merged, Source};

use crate::catalog::{Catalog, Shared};
use crate::disk::{Disk, write_zeros};
use crate::journal::segment::Segment;
use crate::table::{self, Cursor, Table, TableWriter};
use crate::{OpenError, ReadError, Sweep};

/// Files kept for segments to come.
const MAX_SPARES: usize = 2;

/// Why a merge failed. No entry is lost, and the merge is retried.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] OpenError),
}

/// A running merge. It works in steps, so that other work need not wait for it.
pub(crate) struct Merge {
    shared: Arc<Shared>,
    inputs: Vec<Arc<Segment>>,
    /// The first frame that is not merged.
    merged: u64,
    entries: Merged,
    output: TableWriter,
    generation: u64,
    sweep: Box<dyn Sweep>,
    runs: Runs,
}

/// Sorted portions in files, which are removed with this value.
pub(crate) struct Runs {
    disk: Arc<dyn Disk>,
    names: Vec<String>,
}

impl Drop for Runs {
    fn drop(&mut self) {
        for name in &self.names {
            // Files that cannot be removed now are removed when the store is opened.
            let _ = self.disk.remove(name);
        }
    }
}

/// The entries of a table and of segments as one ascending sequence, the newest of each key.
pub(crate) fn merged(
    shared: &Shared,
    table: Option<&Arc<Table>>,
    segments: &[Arc<Segment>],
    runs: &mut Runs,
) -> Result<Merged, MergeError> {
    // The newest comes first.
    let mut sources = sorted(shared, segments, runs)?;
    sources.reverse();
    if let Some(table) = table {
        sources.push(Source::Table(Cursor::first(Arc::clone(table))?));
    }
    Ok(Merged::new(sources))
}

/// The operations of segments, sorted in portions, the oldest first. All but the last are in files.
fn sorted(shared: &Shared, segments: &[Arc<Segment>], runs: &mut Runs) -> Result<Vec<Source>, MergeError> {
    let mut sources = Vec::new();
    let mut run = run::Run::default();
    for (index, segment) in segments.iter().enumerate() {
        let limit = segments.get(index + 1).map(|next| next.first);
        if run.bytes() > 0 && run.bytes() + segment.end() > shared.settings.merge_memory_bytes {
            sources.push(spill(shared, std::mem::take(&mut run), runs)?);
        }
        run.read(segment, limit)?;
    }
    sources.push(Source::Run(run.sorted()));
    Ok(sources)
}

/// Writes a sorted portion into a file and reads it from there.
fn spill(shared: &Shared, run: run::Run, runs: &mut Runs) -> Result<Source, MergeError> {
    let generation = shared.catalog().take_number();
    let name = table::run_name(generation);
    let writing = |error| OpenError::writing(&name, error);
    runs.names.push(name.clone());
    let mut writer = TableWriter::new(shared.disk.create_scratch(&name).map_err(writing)?);
    let mut sorted = run.sorted();
    while let Some((key, value)) = sorted.current() {
        writer.add(key, value).map_err(writing)?;
        sorted.advance();
    }
    writer.finish(generation, 0).map_err(writing)?;
    let table = Table::open(&*shared.disk, &name, generation)?;
    Ok(Source::Table(Cursor::first(Arc::new(table))?))
}

impl Runs {
    pub(crate) fn new(disk: &Arc<dyn Disk>) -> Self {
        Self { disk: Arc::clone(disk), names: Vec::new() }
    }
}

impl Merge {
    /// Begins a merge of the closed files; `None` when there are none.
    pub(crate) fn begin(shared: &Arc<Shared>) -> Result<Option<Self>, MergeError> {
        let Catalog { table, mut segments, .. } = shared.catalog().clone();
        let Some(open) = segments.pop() else {
            return Ok(None);
        };
        if segments.is_empty() {
            return Ok(None);
        }
        let merged_below = open.first;
        let mut runs = Runs::new(&shared.disk);
        // The end of the last closed segment gives the number of the first frame of the open one.
        let entries = merged(shared, table.as_ref(), &segments, &mut runs)?;
        let generation = shared.catalog().take_number();
        let name = table::name(generation);
        let output = TableWriter::create(&*shared.disk, &name).map_err(|error| discard(shared, &name, error))?;
        Ok(Some(Self {
            shared: Arc::clone(shared),
            inputs: segments,
            merged: merged_below,
            entries,
            output,
            generation,
            sweep: (shared.sweep)(),
            runs,
        }))
    }

    /// Works on some entries. Says whether there are more.
    pub(crate) fn advance(&mut self, entries: usize) -> Result<bool, MergeError> {
        for _ in 0..entries {
            let Some((key, value)) = self.entries.current() else {
                return Ok(false);
            };
            // This is the lowest layer: a deleted entry leaves no trace.
            if let Some(value) = value.filter(|value| self.sweep.keep(key, value)) {
                let added = self.output.add(key, Some(value));
                added.map_err(|error| OpenError::writing(&table::name(self.generation), error))?;
            }
            self.entries.advance()?;
        }
        Ok(true)
    }

    /// Gives up and removes the written files.
    pub(crate) fn abandon(self) {
        let _ = self.shared.disk.remove(&table::name(self.generation));
    }

    /// Puts the new table in the place of the old one and of the merged files.
    pub(crate) fn finish(self) -> Result<(), MergeError> {
        let Self { shared, inputs, merged, entries, output, generation, runs, .. } = self;
        drop(entries);
        drop(runs);
        let name = table::name(generation);
        output.finish(generation, merged).map_err(|error| discard(&shared, &name, error))?;
        let table = Table::open(&*shared.disk, &name, generation);
        let table = table.inspect_err(|_| drop(shared.disk.remove(&name)))?;
        let mut catalog = shared.catalog();
        let old = catalog.clone();
        catalog.table = Some(Arc::new(table));
        catalog.merged = merged;
        catalog.segments.drain(..inputs.len().min(old.segments.len()));
        if let Err(error) = catalog.save(&*shared.disk) {
            catalog.table = old.table;
            catalog.merged = old.merged;
            catalog.segments = old.segments;
            catalog.orphans.push(name);
            return Err(error.into());
        }
        shared.status.merges.fetch_add(1, Relaxed);
        shared.measure(&catalog);
        let table_name = old.table.as_ref().map(|table| table.name.clone());
        drop(old);
        if let Some(name) = table_name {
            let _ = shared.disk.remove(&name);
        }
        for segment in inputs {
            give_back(&shared, &mut catalog, segment);
        }
        drop(catalog);
        shared.measure_free_space();
        Ok(())
    }
}

/// Gives a merge that had no room some of the reserve for its next attempt.
pub(crate) fn give_room(shared: &Shared, error: &MergeError) {
    if matches!(error, MergeError::Write(OpenError::NoSpace { .. })) {
        shared.use_reserve_for_merge();
    }
}

/// Keeps a merged file for a segment to come, or removes it.
fn give_back(shared: &Shared, catalog: &mut Catalog, segment: Arc<Segment>) {
    let name = segment.name();
    let usual = segment.file.length().is_ok_and(|length| length == shared.settings.segment_bytes);
    // A reader may still use it; then the file cannot be recycled.
    let unused = Arc::into_inner(segment).is_some();
    if usual && unused && catalog.spares.len() < MAX_SPARES {
        let spare = spare_name(catalog.take_number());
        if shared.disk.recycle(&name, &spare).is_ok() {
            catalog.spares.push(spare);
            return;
        }
    }
    // Files that cannot be removed now are removed when the store is opened.
    let _ = shared.disk.remove(&name);
}

fn discard(shared: &Shared, name: &str, error: std::io::Error) -> OpenError {
    let _ = shared.disk.remove(name);
    OpenError::writing(name, error)
}

/// The name of a file for a segment to come.
pub(crate) fn spare_name(number: u64) -> String {
    format!("spare-{number:012}.log")
}

/// Bytes of a spare file written between two syncs, so that they delay the syncs of the journal only briefly.
const SPARE_PORTION: u64 = 8 * 1024 * 1024;

/// Writes a file for a segment to come, so that the syncs of its frames change no more than their bytes.
pub(crate) fn make_spare(shared: &Shared) -> std::io::Result<()> {
    let bytes = shared.settings.segment_bytes;
    let room = shared.settings.min_free_bytes.saturating_add(bytes.saturating_mul(2));
    if shared.disk.free_space()? < room {
        return Ok(());
    }
    let name = {
        let mut catalog = shared.catalog();
        if !catalog.spares.is_empty() {
            return Ok(());
        }
        spare_name(catalog.take_number())
    };
    let written = fill(&*shared.disk, &name, bytes);
    match written {
        Ok(()) => shared.catalog().spares.push(name),
        Err(_) => drop(shared.disk.remove(&name)),
    }
    written
}

fn fill(disk: &dyn Disk, name: &str, bytes: u64) -> std::io::Result<()> {
    let file = disk.create(name)?;
    let mut position = 0;
    while position < bytes {
        let end = (position + SPARE_PORTION).min(bytes);
        write_zeros(&*file, position, end)?;
        file.sync_data()?;
        position = end;
    }
    Ok(())
}
