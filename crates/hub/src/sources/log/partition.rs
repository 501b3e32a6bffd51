//! A partition that this process has: its reader, how far it is, and the search for a time.

use std::time::Instant;

use tidegate_bus::{BusError, Position, Reader};

use super::super::progress::Progress;
use crate::log::Mark;
use crate::message::Message;

/// Records that a search looks at in one turn.
const SEARCH_BATCH: usize = 256;

/// How a message of a partition is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(super) partition: u32,
    /// Which run of the partition: a partition that is lost and comes back has another one.
    pub(super) run: u64,
    pub(super) position: u64,
}

/// The next step of a partition.
pub(super) enum Phase {
    /// The end of the log of states is asked for.
    Asks,
    /// The states are read up to here: the last process of the partition may have written a mark.
    Catches(u64),
    /// A replay looks for its time.
    Seeks(Search),
    /// Its messages are taken.
    Works,
}

/// A partition.
pub(super) struct Share {
    pub(super) run: u64,
    pub(super) phase: Phase,
    pub(super) reader: Option<Reader>,
    pub(super) progress: Progress,
    pub(super) generation: u64,
    /// The mark that the bus has confirmed.
    pub(super) kept: Mark,
    /// The mark that is on its way to the bus.
    pub(super) sent: Option<Mark>,
    /// It goes to another process: no more messages are taken.
    pub(super) losing: bool,
    /// Whether its release was asked for.
    pub(super) released: bool,
    /// Looks for the first message that is kept for a replay.
    pub(super) trimming: Option<Search>,
    /// All below it was read.
    pub(super) read_to: u64,
    /// The end of the partition, when it was last asked for.
    pub(super) end: u64,
    /// All below it is trimmed, as far as this process knows.
    pub(super) trimmed: u64,
    pub(super) trim_at: Instant,
}

impl Share {
    pub(super) fn new(run: u64, now: Instant) -> Self {
        Self {
            run,
            phase: Phase::Asks,
            reader: None,
            progress: Progress::default(),
            generation: 0,
            kept: Mark::default(),
            sent: None,
            losing: false,
            released: false,
            trimming: None,
            read_to: 0,
            end: 0,
            trimmed: 0,
            trim_at: now,
        }
    }

    /// How far it is.
    pub(super) fn mark(&self) -> Mark {
        Mark { generation: self.generation, position: self.progress.done() }
    }

    /// The mark that has to be written, if there is one.
    pub(super) fn unkept(&self) -> Option<Mark> {
        let is_known = matches!(self.phase, Phase::Works) && self.sent.is_none();
        Some(self.mark()).filter(|mark| is_known && *mark > self.kept)
    }

    /// Messages that were not taken, about.
    pub(super) fn waiting(&self) -> u64 {
        self.end.saturating_sub(self.read_to.max(self.progress.next()))
    }

    /// Whether another process may continue with it.
    pub(super) fn is_finished(&self) -> bool {
        let works = matches!(self.phase, Phase::Works);
        !works || (self.progress.len() == 0 && self.sent.is_none() && self.unkept().is_none())
    }
}

/// Looks for the first record that is as old as a time, or younger.
pub(super) struct Search {
    pub(super) replay: u64,
    from: u64,
    /// The search ends here.
    end: u64,
    reader: Option<Reader>,
}

impl Search {
    pub(super) fn new(replay: u64, from: u64) -> Self {
        Self { replay, from, end: 0, reader: None }
    }

    /// Begins to read. `end` is the position at which the search ends.
    pub(super) fn begin(&mut self, end: u64, reader: Reader) {
        self.end = end;
        self.reader = Some(reader);
    }

    pub(super) fn is_begun(&self) -> bool {
        self.reader.is_some()
    }

    /// Looks at records that have come. Returns the position when it is found.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) fn turn(&mut self) -> Result<Option<u64>, BusError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        loop {
            let taken = reader.take(SEARCH_BATCH)?;
            for record in &taken.records {
                let position = record.position.0;
                let is_young = Message::time_of(&record.payload).is_none_or(|time| time >= self.from);
                if position >= self.end || is_young {
                    return Ok(Some(position.min(self.end)));
                }
            }
            if taken.next >= Position(self.end) {
                return Ok(Some(self.end));
            }
            if taken.records.is_empty() {
                return Ok(None);
            }
        }
    }
}
