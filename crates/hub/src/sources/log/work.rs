//! The next step of each partition: reading, a search for a time, trimming, releasing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{Bounds, BusError, Position};

use super::super::progress::Progress;
use super::partition::{Phase, Search, Share, Token, Undelivered};
use super::{BATCH, BusAnswer, LogSource};
use crate::log::{LogSettings, Replay};
use crate::message::Message;
use crate::sources::SourceStep;
use crate::time::wall_clock;

/// How often delivered messages are removed.
const TRIM_EVERY: Duration = Duration::from_secs(5);
/// How often messages that have waited too long are looked for, where that does not matter more often.
const AGE_EVERY: Duration = Duration::from_secs(60);

impl LogSource {
    /// Does what each partition needs next.
    pub(super) fn work(&mut self, now: Instant) {
        let mut room = usize::from(self.settings.window);
        room = room.saturating_sub(self.parts.values().map(|part| part.progress.len()).sum());
        let numbers: Vec<u32> = self.parts.keys().copied().collect();
        for number in numbers {
            let Some(mut part) = self.parts.remove(&number) else { continue };
            if let Err(error) = self.work_on(number, &mut part, &mut room, now) {
                tracing::warn!(pipeline = self.settings.pipeline, partition = number, %error, "reading a partition again");
                // Also when the servers have lost the log: reading begins at the mark, or at the first record.
                part.reader = None;
                part.trimming = None;
                self.error = Some(error.to_string());
                let trimmed = match &error {
                    // A log that was made again has lower positions.
                    BusError::Trimmed { from, first, .. } => Some(if first > from { first.0 } else { 0 }),
                    _ => None,
                };
                self.restart(number, &mut part, trimmed);
            }
            self.parts.insert(number, part);
        }
    }

    /// Begins a partition again, at its mark, or at its first message when the messages behind the mark are gone: the
    /// ones below `trimmed`.
    fn restart(&mut self, number: u32, part: &mut Share, trimmed: Option<u64>) {
        let from_first = trimmed.is_some();
        if let Some(first) = trimmed
            && let Some(lost) = part.undelivered_below(first)
        {
            // The taken records are forgotten.
            self.removed += lost.untaken + part.progress.open_below(first);
        }
        self.forget(number, part.run);
        self.runs += 1;
        let (mark, losing, kept) = (part.mark(), part.losing, part.kept);
        let is_known = !matches!(part.phase, Phase::Asks | Phase::Catches(_));
        *part = Share::new(self.runs, Instant::now());
        part.losing = losing;
        part.trimmed = trimmed.unwrap_or(0);
        if !is_known {
            return;
        }
        part.kept = kept;
        // A log that was made again has lower positions, and marks of another generation count there.
        part.generation = mark.generation + u64::from(from_first);
        part.progress = Progress::at(if from_first { 0 } else { mark.position });
        part.phase = Phase::Works;
    }

    fn work_on(&mut self, number: u32, part: &mut Share, room: &mut usize, now: Instant) -> Result<(), BusError> {
        let place = LogSettings::place(&self.names, number);
        match &mut part.phase {
            Phase::Asks => {
                part.phase = Phase::Catches(u64::MAX);
                let run = part.run;
                self.bus.bounds(&self.states_place(), self.done(move |it| BusAnswer::StatesEnd(number, run, it)))?;
            }
            Phase::Catches(end) if self.state_next >= *end => {
                part.kept = self.state.mark(number);
                part.generation = part.kept.generation;
                part.progress = Progress::at(part.kept.position);
                part.phase = Phase::Works;
            }
            Phase::Catches(_) => {}
            Phase::Seeks(search) => {
                if let Some(found) = search.turn()? {
                    part.generation = search.replay;
                    part.progress = Progress::at(found);
                    part.phase = Phase::Works;
                }
            }
            Phase::Works if self.state.replay.number > part.generation && !part.losing => {
                let Replay { number: replay, from } = self.state.replay;
                self.forget(number, part.run);
                self.runs += 1;
                (part.run, part.reader, part.trimming, part.sent) = (self.runs, None, None, None);
                part.phase = Phase::Seeks(Search::new(replay, from));
                let run = part.run;
                self.bus.bounds(&place, self.done(move |it| BusAnswer::Bounds(number, run, it)))?;
            }
            Phase::Works => {
                self.read(number, part, room)?;
                self.trim(number, part, now)?;
            }
        }
        if part.losing && !part.released && part.is_finished() {
            part.released = true;
            if let Some(membership) = &self.membership {
                membership.release(tidegate_bus::Partition(number));
            }
        }
        Ok(())
    }

    fn read(&mut self, number: u32, part: &mut Share, room: &mut usize) -> Result<(), BusError> {
        if part.losing || *room == 0 {
            return Ok(());
        }
        if part.reader.is_none() {
            let place = LogSettings::place(&self.names, number);
            part.reader = Some(self.bus.read(&place, Position(part.progress.done()), self.inbox.wake())?);
        }
        let Some(reader) = &mut part.reader else { return Ok(()) };
        let taken = reader.take(BATCH.min(*room))?;
        part.read_to = taken.next.0;
        for record in taken.records {
            *room = room.saturating_sub(1);
            let position = record.position.0;
            part.progress.take(position);
            if let Some(message) = Message::from_bytes(&record.payload) {
                let delivery = Token { partition: number, run: part.run, position };
                self.steps.push_back(SourceStep::Message(Arc::new(message), Some(delivery)));
            } else {
                let pipeline = self.settings.pipeline.as_str();
                tracing::warn!(pipeline, partition = number, position, "a record of the log is not a message");
                part.progress.finish(position);
            }
        }
        Ok(())
    }

    /// Removes messages that are delivered and older than a replay may ask for, and messages that have waited too long:
    /// a bus in a directory has no limit of time.
    fn trim(&mut self, number: u32, part: &mut Share, now: Instant) -> Result<(), BusError> {
        let place = LogSettings::place(&self.names, number);
        let is_aging = now >= part.age_at && part.has_undelivered();
        let below = match &mut part.trimming {
            Some(search) => search.turn()?,
            None if now < part.trim_at => None,
            None if self.settings.keep.is_zero() && part.kept.position > part.trimmed => {
                Some(part.kept.position.min(part.progress.done()))
            }
            None if part.kept.position <= part.trimmed && !is_aging => None,
            None => {
                let (keep, wait) = (self.settings.keep, self.settings.wait.max(self.settings.keep));
                (part.trim_at, part.age_at) = (now + TRIM_EVERY, now + AGE_EVERY.min(wait / 4));
                let before =
                    |age: Duration| wall_clock().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
                part.trimming = Some(Search::of_kept(before(keep), before(wait)));
                let run = part.run;
                self.bus.bounds(&place, self.done(move |it| BusAnswer::Bounds(number, run, it)))?;
                None
            }
        };
        let Some(below) = below else { return Ok(()) };
        let search = part.trimming.take();
        part.trim_at = now + TRIM_EVERY;
        if below > part.trimmed {
            let undelivered = search.and_then(|search| search.undelivered(part, below));
            if let Some(Undelivered { first, untaken }) = undelivered {
                self.removed += untaken;
                let (pipeline, last) = (self.settings.pipeline.as_str(), below - 1);
                tracing::warn!(
                    pipeline,
                    partition = number,
                    first,
                    last,
                    "messages were removed from the log before all sinks had them: they are older than `keep_for`"
                );
            }
            part.trimmed = below;
            // The rest is trimmed the next time.
            self.bus.trim(&place, Position(below), Box::new(drop))?;
        }
        Ok(())
    }

    pub(super) fn begin_search(
        &mut self,
        number: u32,
        run: u64,
        outcome: Result<Bounds, BusError>,
    ) -> Result<(), BusError> {
        let place = LogSettings::place(&self.names, number);
        let Some(part) = self.parts.get_mut(&number).filter(|part| part.run == run) else { return Ok(()) };
        let kept = part.kept.position.min(part.progress.done());
        let (search, trims) = match (&mut part.phase, &mut part.trimming) {
            (Phase::Seeks(search), _) if !search.is_begun() => (search, false),
            (_, Some(search)) if !search.is_begun() => (search, true),
            _ => return Ok(()),
        };
        let begun = outcome.and_then(|bounds| {
            let reader = self.bus.read(&place, bounds.first, self.inbox.wake())?;
            let end = if trims { bounds.next.0 } else { kept.min(bounds.next.0) };
            search.begin(kept, end, reader);
            Ok(())
        });
        begun.inspect_err(|_| {
            // The next turn begins again.
            part.trimming = None;
            if matches!(part.phase, Phase::Seeks(_)) {
                part.phase = Phase::Works;
            }
        })
    }
}
