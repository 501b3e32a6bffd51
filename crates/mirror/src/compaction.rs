//! Compacts the log: writes lists of all files, from which a restart can begin, and trims the records before them.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidegate_store::Disk;

use crate::Lost;
use crate::carrier::{Carrier, Order};
use crate::files::{FileId, Files, Mark};
use crate::local::LocalState;
use crate::record::Body;
use crate::send_queue::Indexed;

/// Largest file that is written again so that the log can be trimmed behind it, bytes. The store replaces larger ones
/// in time.
const MAX_FORWARDED_BYTES: u64 = 4 * 1024 * 1024;
/// Most files that are written again at once.
const MAX_FORWARDED: usize = 16;
/// Pause before a repair after a repair without a confirmation.
const PAUSE: Duration = Duration::from_secs(1);

impl Carrier {
    /// The thread.
    pub(crate) fn run(&self) {
        let mut mended_at = None;
        loop {
            let indexed = {
                let state = self.send_queue.state();
                let waiting = self.send_queue.changed.wait_while(state, |state| {
                    state.lost.is_none() && state.trouble.is_none() && state.indexed.is_none()
                });
                let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
                if state.lost.is_some() {
                    return;
                }
                state.indexed.take()
            };
            if let Some(indexed) = indexed {
                self.tidy_up(indexed);
                continue;
            }
            // A repair whose records are refused at once must not loop.
            let confirmed = self.send_queue.state().confirmed;
            if mended_at.replace(confirmed) == Some(confirmed) {
                self.sleep(PAUSE);
            }
            self.mend();
        }
    }

    /// Begins a list of all files when it is time.
    pub(crate) fn index_in_time(&self, order: &mut Order) -> Result<(), Lost> {
        let dead = self.send_queue.state().used().saturating_sub(self.send_queue.files().bytes());
        let is_due = order.since_index >= self.settings.index_after_bytes;
        let is_worth_it =
            dead > self.settings.max_dead_bytes && order.since_index > self.settings.index_after_bytes / 16;
        if is_due || is_worth_it { self.index(order).map(drop) } else { Ok(()) }
    }

    /// Sends a list of all files. Returns its sequence.
    pub(crate) fn index(&self, order: &mut Order) -> Result<u64, Lost> {
        self.forward(order)?;
        let (files, trim) = self.listed();
        let sequence = self.send(order, &Body::Index(files), None, Some(trim))?;
        order.since_index = 0;
        Ok(sequence)
    }

    /// All files, and the mark below which the log can be trimmed once their list is confirmed.
    pub(crate) fn listed(&self) -> (Files, Mark) {
        let state = self.send_queue.state();
        // Records that are not confirmed yet will come after the confirmed ones.
        let bound = Mark { position: state.mark.position.next(), offset: state.mark.offset };
        let mut files = self.send_queue.files().clone();
        let ids: Vec<FileId> = files.iter().map(|(id, _)| id).collect();
        let mut trim = bound;
        for file in ids {
            if let Some(file) = files.get_mut(file).filter(|file| !file.extents.is_empty()) {
                trim = trim.min(*file.first.get_or_insert(bound));
            }
        }
        (files, trim)
    }

    /// Sends small old files again, while so much is dead behind them.
    fn forward(&self, order: &mut Order) -> Result<(), Lost> {
        for _ in 0..MAX_FORWARDED {
            let (used, trimmed) = {
                let state = self.send_queue.state();
                (state.used(), state.trimmed)
            };
            let oldest = {
                let files = self.send_queue.files();
                let spare = self.settings.max_dead_bytes.max(files.bytes());
                if used.saturating_sub(files.bytes()) <= spare {
                    return Ok(());
                }
                let marked = files.iter().filter_map(|(id, file)| Some((file.first?, id, file)));
                let oldest =
                    marked.filter(|(_, _, file)| !file.extents.is_empty()).min_by_key(|(first, id, _)| (*first, *id));
                oldest.map(|(first, id, file)| (first, id, file.clone()))
            };
            let Some((first, id, file)) = oldest.filter(|(_, _, file)| file.extents.bytes() <= MAX_FORWARDED_BYTES)
            else {
                return Ok(());
            };
            if first.offset > trimmed.saturating_add(used / 2) {
                return Ok(());
            }
            let parts = file.name.as_deref().map(|name| self.parts_of(name, &file.extents));
            // A file that cannot be read here is not written again.
            let Some(Ok(parts)) = parts else { return Ok(()) };
            if let Some(file) = self.send_queue.files().get_mut(id) {
                file.first = None;
            }
            for (at, bytes) in parts {
                let body = Body::Data { file: id, at, length: file.length, bytes: &bytes };
                self.send(order, &body, Some(id), None)?;
            }
        }
        Ok(())
    }

    /// The content of a file in the working copy, in the portions of records.
    pub(crate) fn parts_of(&self, name: &str, extents: &crate::extents::Extents) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let file = self.local.open(name)?;
        let mut parts = Vec::new();
        for extent in extents.parts() {
            let (mut at, mut checksum) = (extent.at, 0);
            while at < extent.end() {
                let length = (extent.end() - at).min(self.settings.chunk_bytes as u64);
                let mut bytes = vec![0; length as usize];
                file.read_at(&mut bytes, at)?;
                checksum = crc32c::crc32c_append(checksum, &bytes);
                parts.push((at, bytes));
                at += length;
            }
            // Damaged content of this disk must not replace the content on the bus.
            if extent.checksum.is_some_and(|known| known != checksum) {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(parts)
    }

    /// A list of all files is confirmed: a restart can begin there, so earlier records are not needed.
    fn tidy_up(&self, indexed: Indexed) {
        let Indexed { sequence, position, record, trim } = indexed;
        let state = LocalState { log: self.place.log.to_string(), position, index: Some(record) };
        if let Err(error) = state.save(&self.local, self.settings.local_sync) {
            tracing::warn!(%error, "cannot store the position of the working copy; the next start fetches more");
        }
        let trimmed = {
            let mut state = self.send_queue.state();
            state.noted = sequence;
            state.trimmed
        };
        self.send_queue.changed.notify_all();
        if trim.offset <= trimmed {
            return;
        }
        let queue = Arc::clone(&self.send_queue);
        let done = Box::new(move |outcome: Result<(), tidegate_bus::BusError>| {
            if outcome.is_ok() {
                let mut state = queue.state();
                state.trimmed = state.trimmed.max(trim.offset);
                drop(state);
                queue.changed.notify_all();
            }
        });
        if let Err(error) = self.bus.trim(&self.place, trim.position, done) {
            tracing::debug!(%error, "the log is trimmed with the next list of files");
        }
    }
}
