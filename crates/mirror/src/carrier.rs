//! Carries records to the bus, in one order, and waits for their confirmation. A thread of its own mends what goes
//! wrong on the way (`mend`), and tidies up behind lists of files that are confirmed (`house`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_bus::{Append, Bus, Epoch, Place};
use tidegate_store::RealDisk;

use crate::files::{FileId, Mark};
use crate::line::{Line, Sent, State};
use crate::record::{Body, Origin, encode};
use crate::{Lost, Settings};

/// Bytes of the log beyond `max_bytes` that are left for what makes room: changes of names and lists of files.
pub(crate) const RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// Who sends.
pub(crate) struct Order {
    pub(crate) epoch: Epoch,
    /// The last one that was given.
    pub(crate) sequence: u64,
    /// Bytes of the log so far.
    pub(crate) offset: u64,
    /// Those behind the last list of files.
    pub(crate) since_index: u64,
}

/// All that the disk, its files and the thread share.
pub(crate) struct Carrier {
    pub(crate) bus: Bus,
    pub(crate) place: Place,
    pub(crate) settings: Settings,
    pub(crate) local: RealDisk,
    pub(crate) incarnation: u64,
    pub(crate) line: Arc<Line>,
    order: Mutex<Order>,
}

impl Carrier {
    pub(crate) fn new(
        bus: Bus,
        place: Place,
        settings: Settings,
        local: RealDisk,
        incarnation: u64,
        line: Line,
        order: Order,
    ) -> Self {
        Self { bus, place, settings, local, incarnation, line: Arc::new(line), order: Mutex::new(order) }
    }

    /// The right to send.
    pub(crate) fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a record, and gives its sequence. Nothing waits here: what the bus refuses is sent again by the thread.
    pub(crate) fn send(
        &self,
        order: &mut Order,
        body: &Body<'_>,
        file: Option<FileId>,
        trim: Option<Mark>,
    ) -> Result<u64, Lost> {
        let sequence = order.sequence + 1;
        let origin = Origin { incarnation: self.incarnation, sequence, offset: order.offset };
        let payload = Bytes::from(encode(origin, body));
        let sent = Sent { sequence, offset: order.offset, payload: payload.clone(), file, trim, position: None };
        let mut state = self.line.state();
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        order.since_index += sent.end() - order.offset;
        (order.sequence, order.offset) = (sequence, sent.end());
        state.push(sent);
        // Nothing may follow what the bus has not even taken, or a gap would be stored.
        let goes = state.trouble.is_none();
        state.outstanding += usize::from(goes);
        drop(state);
        if goes {
            self.append(order.epoch, sequence, payload);
        }
        Ok(sequence)
    }

    /// Gives a record to the bus that is counted as outstanding.
    pub(crate) fn append(&self, epoch: Epoch, sequence: u64, payload: Bytes) {
        let line = Arc::clone(&self.line);
        let done = Box::new(move |outcome| line.answered(sequence, outcome));
        if let Err(error) = self.bus.append(&self.place, Append::new(payload).by(epoch), done) {
            self.line.answered(sequence, Err(error));
        }
    }

    /// Waits until something holds.
    pub(crate) fn wait_until(&self, holds: impl Fn(&State) -> bool) -> Result<(), Lost> {
        let mut state = self.line.state();
        loop {
            if holds(&state) {
                return Ok(());
            }
            if let Some(lost) = &state.lost {
                return Err(lost.clone());
            }
            state = self.line.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until something holds, but no longer than this, nor when nothing can be sent any more.
    pub(crate) fn wait_in_time(&self, patience: Duration, holds: impl Fn(&State) -> bool) {
        let waits = |state: &mut State| !holds(state) && state.lost.is_none();
        let waited = self.line.changed.wait_timeout_while(self.line.state(), patience, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until all up to a sequence is confirmed.
    pub(crate) fn wait_for(&self, sequence: u64) -> Result<(), Lost> {
        self.wait_until(|state| state.confirmed >= sequence)
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.line.state().lost.clone().map_or(Ok(()), Err)
    }

    /// Nothing is sent any more, for good.
    pub(crate) fn lose(&self, lost: &Lost) {
        let mut state = self.line.state();
        if state.lost.is_some() {
            return;
        }
        state.lost = Some(lost.clone());
        drop(state);
        self.line.changed.notify_all();
        if *lost != Lost::Closed {
            // Whoever has opened them ends for it, and says why and what to do: one error is enough.
            tracing::info!(why = %lost, "the files on the bus cannot be written any more");
            (self.settings.on_lost)(lost);
        }
    }

    /// Whether the thread shall end.
    pub(crate) fn ends(&self) -> bool {
        self.line.state().lost.is_some()
    }
}
