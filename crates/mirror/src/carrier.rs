//! Carries records to the bus, in one order, and waits for their confirmation. A separate thread repairs failures
//! (`mend`), and compacts the log after each confirmed list of files (`compaction`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_bus::{Append, Bus, Epoch, LogPartition};
use tidegate_store::RealDisk;

use crate::files::{FileId, Files, Mark};
use crate::membership::Membership;
use crate::record::{Body, Origin, encode};
use crate::send_queue::{SendQueue, Sent, State};
use crate::{Lost, Settings, local};

/// The position of the sender.
pub(crate) struct Order {
    pub(crate) epoch: Epoch,
    /// The last assigned sequence.
    pub(crate) sequence: u64,
    /// Bytes of the log so far.
    pub(crate) offset: u64,
    /// Those behind the last list of files.
    pub(crate) since_index: u64,
    /// Bytes that the files held at that list.
    pub(crate) live_at_index: u64,
}

impl Order {
    /// A list of all files is sent.
    pub(crate) fn note_index(&mut self, files: &Files) {
        (self.since_index, self.live_at_index) = (0, files.bytes());
    }
}

/// All that the disk, its files and the thread share.
pub(crate) struct Carrier {
    pub(crate) bus: Bus,
    pub(crate) place: LogPartition,
    pub(crate) settings: Settings,
    pub(crate) local: RealDisk,
    pub(crate) incarnation: u64,
    pub(crate) send_queue: Arc<SendQueue>,
    order: Mutex<Order>,
    membership: Mutex<Membership>,
}

impl Carrier {
    pub(crate) fn new(
        bus: Bus,
        place: LogPartition,
        settings: Settings,
        local: RealDisk,
        incarnation: u64,
        send_queue: SendQueue,
        order: Order,
    ) -> Self {
        let membership = if settings.joins_cluster { Membership::Awaited { ignored: 0 } } else { Membership::None };
        let (send_queue, order, membership) = (Arc::new(send_queue), Mutex::new(order), Mutex::new(membership));
        Self { bus, place, settings, local, incarnation, send_queue, order, membership }
    }

    /// The fences for this process.
    pub(crate) fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this process serves as a member of its cluster, from the table of this epoch on.
    pub(crate) fn serve_since(&self, epoch: u64) -> Result<(), Lost> {
        if self.membership().begin(epoch) {
            return self.check();
        }
        let fenced = Lost::Fenced(self.place.log.clone());
        self.lose(&fenced);
        Err(fenced)
    }

    /// The right to send.
    pub(crate) fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a record, and returns its sequence. It does not wait: the thread sends a refused record again.
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
        let mut state = self.send_queue.state();
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        order.since_index += sent.end() - order.offset;
        (order.sequence, order.offset) = (sequence, sent.end());
        state.push(sent);
        // No record may follow a refused record, or the log would have a gap.
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
        let queue = Arc::clone(&self.send_queue);
        let done = Box::new(move |outcome| queue.answered(sequence, outcome));
        if let Err(error) = self.bus.append(&self.place, Append::new(payload).by(epoch), done) {
            self.send_queue.answered(sequence, Err(error));
        }
    }

    /// Waits until the condition holds.
    pub(crate) fn wait_until(&self, holds: impl Fn(&State) -> bool) -> Result<(), Lost> {
        let mut state = self.send_queue.state();
        loop {
            if holds(&state) {
                return Ok(());
            }
            if let Some(lost) = &state.lost {
                return Err(lost.clone());
            }
            state = self.send_queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the condition holds, at most for `patience`, and not after the mirror was lost.
    pub(crate) fn wait_in_time(&self, patience: Duration, holds: impl Fn(&State) -> bool) {
        let waits = |state: &mut State| !holds(state) && state.lost.is_none();
        let waited = self.send_queue.changed.wait_timeout_while(self.send_queue.state(), patience, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until all up to a sequence is confirmed.
    pub(crate) fn wait_for(&self, sequence: u64) -> Result<(), Lost> {
        self.wait_until(|state| state.confirmed >= sequence)
    }

    /// An error once the mirror was lost.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.send_queue.state().lost.clone().map_or(Ok(()), Err)
    }

    /// Ends all sending, for good.
    pub(crate) fn lose(&self, lost: &Lost) {
        let mut state = self.send_queue.state();
        if state.lost.is_some() {
            return;
        }
        state.lost = Some(lost.clone());
        drop(state);
        self.send_queue.changed.notify_all();
        if *lost != Lost::Closed {
            // The process that opened the files ends for this error and reports it, so here it is only information.
            tracing::info!(why = %lost, "cannot write the files on the bus any more");
            if let Err(error) = local::note_fenced(&self.local, matches!(lost, Lost::Fenced(_))) {
                tracing::warn!(%error, "cannot note in the data directory that another process has the files");
            }
            (self.settings.on_lost)(lost);
        }
    }

    /// Whether the thread shall end.
    pub(crate) fn ends(&self) -> bool {
        self.send_queue.state().lost.is_some()
    }
}
