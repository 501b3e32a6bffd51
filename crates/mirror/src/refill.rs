//! Fills a log again that the servers have lost. The working copy has everything that was confirmed, and the pending
//! content. Waiting commits are reported when all files are in the log, with their list. A log without that list is
//! filled again by the next start.

use bytes::Bytes;
use tidegate_bus::{Append, Position};

use crate::Lost;
use crate::ask::ask;
use crate::carrier::{Carrier, Order};
use crate::files::{FileId, Mark};
use crate::local::LocalState;
use crate::mend::Failure;
use crate::record::{Body, Origin, encode};

/// Records that are on their way at once while a log is filled again.
const WINDOW: usize = 64;

impl Carrier {
    /// Makes the log again, where the servers do not know it any more.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        let spec = self.settings.spec();
        Ok(ask(&|| self.ends(), |done| self.bus.create(spec, done))?)
    }

    /// Fills the log from the working copy. Says whether all of it is confirmed; if not, it is begun again.
    pub(crate) fn refill(&self) -> Result<bool, Failure> {
        let ends = || self.ends();
        // A start that finds no list of files in the log fills it, too, and resumes from one that it finds.
        LocalState::lost(self.place.log.as_str())
            .save(&self.local, self.settings.local_sync)
            .map_err(|error| self.unreadable(&error))?;
        // No other thread sends meanwhile.
        let mut order = self.order();
        let epoch = ask(&ends, |done| self.bus.own(&self.place, done))?;
        if self.is_taken(&self.find_from(Position::START, epoch.0)?) {
            return Err(Failure::Lost(Lost::Fenced(self.place.log.clone())));
        }
        ask(&ends, |done| self.bus.trim(&self.place, epoch.0, done))?;
        let origin = Origin::claim(self.incarnation, None);
        let claim = Append::new(Bytes::from(encode(origin, &Body::Claim))).by(epoch);
        let position = ask(&ends, |done| self.bus.append(&self.place, claim, done))?;
        order.epoch = epoch;
        self.send_queue.state().begin_again(Mark { position, offset: order.offset });
        tracing::warn!(log = %self.place.log, "the bus lost the files of the store; sending them again from the working copy");
        let ids: Vec<FileId> = self.send_queue.files().iter().map(|(id, _)| id).collect();
        for id in ids {
            if !self.send_file(&mut order, id)? {
                return Ok(false);
            }
        }
        let (files, trim) = self.listed();
        let sequence = self.send(&mut order, &Body::Index(files), None, Some(trim)).map_err(Failure::Lost)?;
        order.note_index(&self.send_queue.files());
        self.send_queue.state().confirms_from = sequence;
        // The answer may have come already.
        self.send_queue.changed.notify_all();
        drop(order);
        self.wait_until(|state| state.trouble.is_some() || state.queue.front().is_none_or(|it| it.sequence > sequence))
            .map_err(Failure::Lost)?;
        let mut state = self.send_queue.state();
        if state.trouble.is_some() {
            return Ok(false);
        }
        (state.is_refilling, state.confirms_from) = (false, 0);
        state.confirmed = state.confirmed.max(sequence);
        drop(state);
        self.send_queue.changed.notify_all();
        tracing::info!(log = %self.place.log, bytes = self.send_queue.files().bytes(), "the bus has all files of the store again");
        Ok(true)
    }

    /// Sends the content of a file. Returns whether the bus has refused no record.
    fn send_file(&self, order: &mut Order, id: FileId) -> Result<bool, Failure> {
        let file = {
            let mut files = self.send_queue.files();
            let Some(file) = files.get_mut(id) else { return Ok(true) };
            file.first = None;
            file.clone()
        };
        let Some(name) = file.name.as_deref() else { return Ok(true) };
        let parts = self.parts_of(name, &file.extents).map_err(|error| self.unreadable(&error))?;
        for (at, bytes) in parts {
            let body = Body::Data { file: id, at, length: file.length, bytes: &bytes };
            self.send(order, &body, Some(id), None).map_err(Failure::Lost)?;
            self.wait_until(|state| state.trouble.is_some() || state.queue.len() < WINDOW).map_err(Failure::Lost)?;
            if self.send_queue.state().trouble.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn unreadable(&self, error: &std::io::Error) -> Failure {
        tracing::error!(%error, "cannot read the working copy, and the bus lost its files");
        let seen = self.send_queue.state().mark.position;
        Failure::Lost(Lost::Behind { log: self.place.log.clone(), seen })
    }
}
