//! Recovery after a failed request: finds the owner of the log and the records that arrived, and sends the rest again.
//! Until then commits wait.

use std::sync::PoisonError;
use std::time::Duration;

use tidegate_bus::{BusError, Position};

use crate::Lost;
use crate::ask::{Range, ask};
use crate::carrier::Carrier;
use crate::record::decode;

/// Pause before the next attempt; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often to look for the process that has claimed the log, before the claim is taken back from it.
const LOOKS: u32 = 12;

/// Why an attempt failed.
pub(crate) enum Failure {
    /// It is tried again.
    Bus(BusError),
    Lost(Lost),
}

impl From<BusError> for Failure {
    fn from(error: BusError) -> Self {
        Self::Bus(error)
    }
}

/// The records of a part of the log.
pub(crate) struct Found {
    /// Sequences and positions of records of this life.
    ours: Vec<(u64, Position)>,
    /// Another process continues the log.
    is_foreign: bool,
    /// The latest epoch of fences by takers.
    fence: Option<u64>,
}

impl Carrier {
    /// Recovers from a failure. Returns when the log is repaired, or lost.
    pub(crate) fn mend(&self) {
        let (mut pause, mut looks) = (FIRST_PAUSE, LOOKS);
        loop {
            // Every request gets an answer in the end, so that no late answer belongs to an earlier attempt.
            if self.wait_until(|state| state.outstanding == 0).is_err() {
                return;
            }
            let Some(trouble) = self.send_queue.state().trouble.clone() else { return };
            match self.attempt(&trouble, &mut looks) {
                Ok(true) => return,
                Ok(false) => {}
                Err(Failure::Lost(lost)) => return self.lose(&lost),
                Err(Failure::Bus(BusError::Stopped)) => return self.lose(&Lost::Closed),
                Err(Failure::Bus(error)) => tracing::warn!(%error, %trouble, "commits are waiting for the bus"),
            }
            self.sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(crate) fn sleep(&self, pause: Duration) {
        let state = self.send_queue.state();
        let waiting = self.send_queue.changed.wait_timeout_while(state, pause, |state| state.lost.is_none());
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }

    /// Says whether it is mended.
    fn attempt(&self, trouble: &BusError, looks: &mut u32) -> Result<bool, Failure> {
        let ends = || self.ends();
        let seen = self.send_queue.state().mark.position;
        let fenced = || Failure::Lost(Lost::Fenced(self.place.log.clone()));
        // First without a claim: who has taken the place must not be disturbed.
        let end = match ask(&ends, |done| self.bus.bounds(&self.place, done)) {
            Err(BusError::Unknown(_)) => {
                self.create()?;
                Position::START
            }
            bounds => bounds?.next,
        };
        if end <= seen || self.send_queue.state().is_refilling {
            return self.refill();
        }
        let found = self.find(seen, end)?;
        if self.is_taken(&found) {
            return Err(fenced());
        }
        if matches!(trouble, BusError::Fenced { .. }) && found.fence.is_none() && *looks > 0 {
            // Another process has claimed the log without identifying itself yet.
            *looks -= 1;
            return Ok(false);
        }
        let epoch = ask(&ends, |done| self.bus.own(&self.place, done))?;
        if epoch.0 <= seen {
            // It is lost since it was looked; the next attempt sees it.
            return Ok(false);
        }
        let found = self.find(seen, epoch.0)?;
        if self.is_taken(&found) {
            return Err(fenced());
        }
        let mut order = self.order();
        let mut state = self.send_queue.state();
        let stored = found.ours.len();
        for (sequence, position) in found.ours {
            state.stored(sequence, position);
        }
        self.send_queue.advance(&mut state);
        state.trouble = None;
        let again: Vec<_> = state.queue.iter().map(|sent| (sent.sequence, sent.payload.clone())).collect();
        state.outstanding = again.len();
        order.epoch = epoch;
        drop(state);
        self.send_queue.changed.notify_all();
        tracing::info!(stored, again = again.len(), "the bus accepts commits again");
        for (sequence, payload) in again {
            self.append_again(epoch, sequence, payload);
        }
        Ok(true)
    }

    /// Whether the log is another process's now. A fence of a former process of this node is not meant for this one,
    /// which takes the log back: the taker only reads.
    pub(crate) fn is_taken(&self, found: &Found) -> bool {
        found.is_foreign || found.fence.is_some_and(|epoch| !self.membership().outlives(epoch))
    }

    /// As [`Self::append`], unless a record before it was refused.
    fn append_again(&self, epoch: tidegate_bus::Epoch, sequence: u64, payload: bytes::Bytes) {
        let mut state = self.send_queue.state();
        if state.trouble.is_some() {
            state.outstanding -= 1;
            drop(state);
            return self.send_queue.changed.notify_all();
        }
        drop(state);
        self.append(epoch, sequence, payload);
    }

    /// Reads the records after one position and below another.
    fn find(&self, seen: Position, to: Position) -> Result<Found, Failure> {
        self.find_from(seen.next(), to)
    }

    /// Reads the records from one position on and below another.
    pub(crate) fn find_from(&self, from: Position, to: Position) -> Result<Found, Failure> {
        let mut found = Found { ours: Vec::new(), is_foreign: false, fence: None };
        if from >= to {
            return Ok(found);
        }
        let mut range = Range::new(&self.bus, &self.place, from, to)?;
        loop {
            let records = match range.take(&|| self.ends()) {
                // Only an owner trims its log, so it is another process's.
                Err(BusError::Trimmed { .. }) => return Ok(Found { is_foreign: true, ..found }),
                records => records?,
            };
            if records.is_empty() {
                return Ok(found);
            }
            for record in records {
                match decode(&record.payload) {
                    Ok((origin, _)) if origin.incarnation == self.incarnation => {
                        if origin.sequence > 0 {
                            found.ours.push((origin.sequence, record.position));
                        }
                    }
                    Ok((origin, body)) if origin.fence_of(&body).is_some() => {
                        found.fence = found.fence.max(origin.fence_of(&body));
                    }
                    // An unreadable record is of another version, so not ours.
                    _ => found.is_foreign = true,
                }
            }
        }
    }
}
