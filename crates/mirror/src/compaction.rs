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
use crate::send_queue::{Indexed, State};

/// Largest file that is written again so that the log can be trimmed behind it, bytes. The store replaces larger ones
/// in time.
const MAX_FORWARDED_BYTES: u64 = 4 * 1024 * 1024;
/// Most files that are written again at once.
const MAX_FORWARDED: usize = 16;
/// Pause before a repair after a repair without a confirmation, and before a trim that has failed is repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// The work of the thread.
enum Work {
    TidyUp(Indexed),
    Trim(Mark),
    Mend,
}

impl Carrier {
    /// The thread.
    pub(crate) fn run(&self) {
        let mut mended_at = None;
        while let Some(work) = self.await_work() {
            match work {
                Work::TidyUp(indexed) => self.tidy_up(indexed),
                Work::Trim(to) => self.trim(to),
                Work::Mend => {
                    // A repair whose records are refused at once must not loop.
                    let confirmed = self.send_queue.state().confirmed;
                    if mended_at.replace(confirmed) == Some(confirmed) {
                        self.sleep(PAUSE);
                    }
                    self.mend();
                }
            }
        }
    }

    /// Waits for work; `None` when the mirror is lost.
    fn await_work(&self) -> Option<Work> {
        let is_idle = |state: &State| state.lost.is_none() && state.trouble.is_none() && state.indexed.is_none();
        let queue = &self.send_queue;
        loop {
            let waited = queue.changed.wait_while(queue.state(), |state| is_idle(state) && state.untrimmed.is_none());
            let waited = waited.unwrap_or_else(PoisonError::into_inner);
            // A failed trim is repeated after a pause. Everything else comes first.
            let waited = queue.changed.wait_timeout_while(waited, PAUSE, |state| is_idle(state));
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.lost.is_some() {
                return None;
            }
            if let Some(indexed) = state.indexed.take() {
                return Some(Work::TidyUp(indexed));
            }
            if state.trouble.is_some() {
                return Some(Work::Mend);
            }
            if let Some(to) = state.untrimmed.take() {
                return Some(Work::Trim(to));
            }
        }
    }

    /// Begins a list of all files when it is time.
    pub(crate) fn index_in_time(&self, order: &mut Order) -> Result<(), Lost> {
        let live = self.send_queue.files().bytes();
        let dead = self.send_queue.state().used().saturating_sub(live);
        let freed = order.live_at_index.saturating_sub(live);
        if self.settings.wants_index(order.since_index, freed, dead) { self.index(order).map(drop) } else { Ok(()) }
    }

    /// Sends a list of all files. Returns its sequence.
    pub(crate) fn index(&self, order: &mut Order) -> Result<u64, Lost> {
        self.forward(order)?;
        let (files, trim) = self.listed();
        let sequence = self.send(order, &Body::Index(files), None, Some(trim))?;
        order.note_index(&self.send_queue.files());
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
        if trim.offset > trimmed {
            self.trim(trim);
        }
    }

    fn trim(&self, to: Mark) {
        let queue = Arc::clone(&self.send_queue);
        let done = Box::new(move |outcome| queue.trimmed(to, outcome));
        if let Err(error) = self.bus.trim(&self.place, to.position, done) {
            self.send_queue.trimmed(to, Err(error));
        }
    }
}
