//! Begins the next file of the journal.

use std::io;
use std::sync::Arc;

use super::{Active, JournalWriter};
use crate::OpenError;
use crate::catalog::Catalog;
use crate::journal::frame::{self, Salt};
use crate::journal::segment::{self, FIRST_FRAME, Segment};

impl JournalWriter {
    pub(super) fn replace_segment(&mut self) -> Result<(), ()> {
        match self.begin_segment() {
            Ok(()) => Ok(()),
            Err(error) => {
                self.note_state(error.state(), format!("cannot begin a file of the journal: {error}"));
                Err(())
            }
        }
    }

    /// Begins the next file. Unsynced frames are written into it, and synced, before the manifest names it. From then
    /// on, frames of an older file with the same numbers are invalid.
    pub(super) fn begin_segment(&mut self) -> Result<(), OpenError> {
        loop {
            match self.try_begin_segment() {
                Err(OpenError::NoSpace { .. }) if self.shared.use_reserve(self.buffer.len() as u64) => {}
                other => return other,
            }
        }
    }

    fn try_begin_segment(&mut self) -> Result<(), OpenError> {
        let shared = Arc::clone(&self.shared);
        let mut catalog = shared.catalog();
        let segment = match self.prepared.take() {
            Some((segment, next)) if segment.first == self.durable && next == self.next => segment,
            other => {
                catalog.orphans.extend(other.map(|(segment, _)| segment.name()));
                Arc::new(self.make_segment(&mut catalog)?)
            }
        };
        catalog.segments.push(Arc::clone(&segment));
        if let Err(error) = catalog.save(&*shared.disk) {
            catalog.segments.pop();
            self.prepared = Some((segment, self.next));
            return Err(error);
        }
        if let Some(old) = self.active.take().filter(|old| old.segment.end() > old.position) {
            // A part of the abandoned file may have been indexed for loads already.
            old.segment.set_end(old.position);
            catalog.abandoned += 1;
        }
        shared.measure(&catalog);
        self.ask_for_merge(&catalog);
        drop(catalog);
        self.buffer.clear();
        self.written = 0;
        self.durable = self.next;
        self.active = Some(Active { position: segment.end(), segment, broken: false });
        Ok(())
    }

    /// Makes a file for the frames from `durable` on: out of a spare one, or a new one.
    fn make_segment(&mut self, catalog: &mut Catalog) -> Result<Segment, OpenError> {
        let id = catalog.take_number();
        let name = segment::name(id);
        self.fill_segment(catalog, id).map_err(|error| {
            let _ = self.shared.disk.remove(&name);
            OpenError::writing(&name, error)
        })
    }

    fn fill_segment(&mut self, catalog: &mut Catalog, id: u64) -> io::Result<Segment> {
        let (disk, name) = (&self.shared.disk, segment::name(id));
        let spare = catalog.spares.pop().filter(|spare| disk.recycle(spare, &name).is_ok());
        let file = if spare.is_some() {
            disk.open(&name)?
        } else {
            let file = disk.create(&name)?;
            // A sync costs less when it does not have to write a new length.
            file.set_length(self.shared.settings.segment_bytes.max(FIRST_FRAME))?;
            file
        };
        let random = disk.random();
        let salt = Salt::Two { header: random as u32, payload: (random >> 32) as u32 };
        file.write_at(&segment::header(id, self.durable, salt), 0)?;
        if !self.buffer.is_empty() {
            frame::seal(&mut self.buffer, salt, self.durable);
            file.write_at(&self.buffer, FIRST_FRAME)?;
        }
        file.sync_data()?;
        Ok(Segment::new(id, self.durable, salt, file, FIRST_FRAME + self.buffer.len() as u64))
    }
}
