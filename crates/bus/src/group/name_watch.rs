//! Watches whether a process is a member of a group under a name. A member that joins takes the name from that process, so
//! a process that may have been started by mistake looks first.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Instant;

use super::{Accepted, Proposal, target_of};
use crate::backend::{Backend, Target};
use crate::budget::Budget;
use crate::completion::Completion;
use crate::{Bounds, BusError, Done, GroupName, MemberName, Position, Reader, Settings};

/// Records that are read at once.
const BATCH: usize = 256;

/// Whether a process has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameUse {
    /// The log of the group is not read to its end yet, or the servers are away.
    Unknown,
    /// No member has the name.
    Free,
    /// The count of the member, whose life this is, has stood still for its lease: it has let go all that it had.
    Silent(u64),
    /// A member has the name, and may live.
    Taken,
}

/// A watch of one name, from [`crate::Bus::watch_name`].
pub struct NameWatch {
    backend: Arc<dyn Backend>,
    budget: Arc<Budget>,
    settings: Arc<Settings>,
    target: Target,
    name: MemberName,
    stage: Stage,
    accepted: Accepted,
    /// The life and the count of the member with the name, and since when they are the same.
    pulse: Option<((u64, u64), Instant)>,
}

/// How far the watch is.
enum Stage {
    New,
    Creating(Receiver<Result<(), BusError>>),
    Measuring(Receiver<Result<Bounds, BusError>>),
    Reading { reader: Reader, end: Position, next: Position },
}

impl NameWatch {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        budget: Arc<Budget>,
        settings: Arc<Settings>,
        group: &GroupName,
        name: &MemberName,
    ) -> Self {
        let (target, name, stage) = (target_of(group), name.clone(), Stage::New);
        Self { backend, budget, settings, target, name, stage, accepted: Accepted::default(), pulse: None }
    }

    /// Looks once, without waiting. Look again several times in a lease.
    ///
    /// # Errors
    /// When the log of the group cannot be made or read; the next look reads it from the start.
    pub fn look(&mut self, now: Instant) -> Result<NameUse, BusError> {
        let looked = self.step(now);
        if looked.is_err() {
            (self.stage, self.accepted, self.pulse) = (Stage::New, Accepted::default(), None);
        }
        looked
    }

    fn step(&mut self, now: Instant) -> Result<NameUse, BusError> {
        loop {
            match &mut self.stage {
                Stage::New => {
                    let (backend, spec) = (Arc::clone(&self.backend), Arc::clone(&self.target.spec));
                    self.stage = Stage::Creating(self.ask(|completion| backend.create(spec, completion))?);
                }
                Stage::Creating(answer) => {
                    if answered(answer)?.is_none() {
                        return Ok(NameUse::Unknown);
                    }
                    let (backend, target) = (Arc::clone(&self.backend), self.target.clone());
                    self.stage = Stage::Measuring(self.ask(|completion| backend.bounds(target, completion))?);
                }
                Stage::Measuring(answer) => {
                    let Some(bounds) = answered(answer)? else { return Ok(NameUse::Unknown) };
                    let reader = self.backend.read(self.target.clone(), Position::START, Arc::new(|| {}))?;
                    // Nothing is read of a log that is empty, wherever it begins.
                    let end = if bounds.next > bounds.first { bounds.next } else { Position::START };
                    self.stage = Stage::Reading { reader, end, next: Position::START };
                }
                Stage::Reading { reader, end, next } => {
                    let taken = reader.take(BATCH)?;
                    *next = taken.next.max(*next);
                    for record in &taken.records {
                        if let Ok(proposal) = serde_json::from_slice::<Proposal>(&record.payload) {
                            self.accepted.judge(record.position, &proposal);
                        }
                    }
                    if taken.records.is_empty() {
                        let is_read = *next >= *end;
                        return Ok(self.judge(is_read, now));
                    }
                }
            }
        }
    }

    fn judge(&mut self, is_read: bool, now: Instant) -> NameUse {
        if !is_read || !self.backend.connection().is_connected() {
            // A member cannot count up now.
            self.pulse = None;
            return NameUse::Unknown;
        }
        let Some((life, beat, lease)) = self.accepted.table.pulse_of(self.name.as_str()) else { return NameUse::Free };
        let since = match self.pulse {
            Some((pulse, since)) if pulse == (life, beat) => since,
            _ => now,
        };
        self.pulse = Some(((life, beat), since));
        let is_silent = now.saturating_duration_since(since) >= lease.unwrap_or(self.settings.lease);
        if is_silent { NameUse::Silent(life) } else { NameUse::Taken }
    }

    fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(Completion<T>),
    ) -> Result<Receiver<Result<T, BusError>>, BusError> {
        let (sender, answer) = channel();
        let done: Done<T> = Box::new(move |outcome| drop(sender.send(outcome)));
        call(Completion::new(&self.budget, &self.settings, 0, done)?);
        Ok(answer)
    }
}

/// The answer to a request, once it is there.
fn answered<T>(answer: &Receiver<Result<T, BusError>>) -> Result<Option<T>, BusError> {
    match answer.try_recv() {
        Ok(outcome) => outcome.map(Some),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => Err(BusError::Stopped),
    }
}
