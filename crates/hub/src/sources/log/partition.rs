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
    /// Which run of the partition: a partition that is lost and returns has another one.
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
    /// When messages that have waited too long are looked for.
    pub(super) age_at: Instant,
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
            age_at: now,
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

    /// The messages that a removal below a position takes away before all sinks have them.
    pub(super) fn undelivered_below(&self, below: u64) -> Option<Undelivered> {
        let first = self.progress.done().max(self.trimmed);
        let taken = self.read_to.max(self.progress.next()).max(self.trimmed);
        (below > first).then(|| Undelivered { first, untaken: below.saturating_sub(taken) })
    }

    /// Whether there are messages that are not delivered, about.
    pub(super) fn has_undelivered(&self) -> bool {
        self.progress.len() > 0 || self.waiting() > 0
    }

    /// Whether another process may continue with it.
    pub(super) fn is_finished(&self) -> bool {
        let works = matches!(self.phase, Phase::Works);
        !works || (self.progress.len() == 0 && self.sent.is_none() && self.unkept().is_none())
    }
}

/// Messages that are removed before all sinks have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undelivered {
    /// The position of the first one.
    pub(super) first: u64,
    /// How many of them this process has not taken: no sink gets these.
    pub(super) untaken: u64,
}

/// Looks for the first record that is as old as a time, or younger.
pub(super) struct Search {
    pub(super) replay: u64,
    from: u64,
    /// Records below this position are delivered.
    delivered: u64,
    /// The time for these.
    delivered_from: u64,
    /// The search ends here.
    end: u64,
    /// Records before the found one that are not delivered. A partition has positions without records, too.
    passed: u64,
    reader: Option<Reader>,
}

impl Search {
    pub(super) fn new(replay: u64, from: u64) -> Self {
        Self { replay, from, delivered: 0, delivered_from: 0, end: 0, passed: 0, reader: None }
    }

    /// Looks for the first record that is kept: delivered ones from one time on, and ones that wait from another.
    pub(super) fn of_kept(delivered_from: u64, from: u64) -> Self {
        Self { delivered_from, ..Self::new(0, from) }
    }

    /// Begins to read. Records below `delivered` are delivered, and `end` is the position at which the search ends.
    pub(super) fn begin(&mut self, delivered: u64, end: u64, reader: Reader) {
        (self.delivered, self.end) = (delivered, end);
        self.reader = Some(reader);
    }

    pub(super) fn is_begun(&self) -> bool {
        self.reader.is_some()
    }

    /// The messages that a removal below the found position takes away before all sinks have them.
    pub(super) fn undelivered(&self, share: &Share, below: u64) -> Option<Undelivered> {
        let lost = share.undelivered_below(below).filter(|_| self.passed > 0)?;
        Some(Undelivered { untaken: lost.untaken.min(self.passed), ..lost })
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
                let is_delivered = position < self.delivered;
                let from = if is_delivered { self.from.max(self.delivered_from) } else { self.from };
                let is_young = Message::time_of(&record.payload).is_none_or(|time| time >= from);
                if position >= self.end || is_young {
                    return Ok(Some(position.min(self.end)));
                }
                self.passed += u64::from(!is_delivered);
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Condvar, Mutex};

    use tidegate_bus::{Address, Append, Bus, LogName, LogPartition, LogSpec, Settings};

    use super::*;
    use crate::log::wait;

    /// The position that a search finds among messages of these times.
    fn found(times: &[u64], delivered: u64, mut search: Search) -> u64 {
        find(times, delivered, &mut search)
    }

    fn find(times: &[u64], delivered: u64, search: &mut Search) -> u64 {
        let bus = Bus::open(&Address::Embedded, Settings::default(), Arc::new(|_| {})).unwrap();
        let place = LogPartition::new(LogName::new("hub-p").unwrap(), 0);
        wait(|done| bus.create(LogSpec::shared(place.log.clone(), 1), done)).unwrap();
        for time in times {
            let message = Message { timestamp: *time, ..Message::default() };
            wait(|done| bus.append(&place, Append::new(message.to_bytes()), done)).unwrap();
        }
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let ring = Arc::clone(&bell);
        let wake = Arc::new(move || {
            *ring.0.lock().unwrap() = true;
            ring.1.notify_one();
        });
        search.begin(delivered, times.len() as u64, bus.read(&place, Position::START, wake).unwrap());
        loop {
            if let Some(found) = search.turn().unwrap() {
                return found;
            }
            *bell.1.wait_while(bell.0.lock().unwrap(), |is_rung| !*is_rung).unwrap() = false;
        }
    }

    #[test]
    fn a_removal_counts_undelivered_messages_once() {
        let mut share = Share::new(1, Instant::now());
        share.progress = Progress::at(3);
        assert_eq!(share.undelivered_below(3), None);
        assert_eq!(share.undelivered_below(8), Some(Undelivered { first: 3, untaken: 5 }));
        share.progress.take(3);
        share.progress.take(4);
        assert_eq!(
            share.undelivered_below(5),
            Some(Undelivered { first: 3, untaken: 0 }),
            "they may still be delivered"
        );
        share.read_to = 6;
        assert_eq!(share.undelivered_below(8), Some(Undelivered { first: 3, untaken: 2 }));
        share.trimmed = 7;
        assert_eq!(share.undelivered_below(8), Some(Undelivered { first: 7, untaken: 1 }));
    }

    #[test]
    fn positions_without_messages_are_no_loss() {
        let share = Share::new(1, Instant::now());
        let mut search = Search::of_kept(25, 15);
        assert_eq!(find(&[10, 20], 0, &mut search), 1);
        assert_eq!(search.undelivered(&share, 1), Some(Undelivered { first: 0, untaken: 1 }));
        // The bus has taken positions for its own records, and no message has come.
        let mut search = Search::of_kept(25, 15);
        assert_eq!(find(&[], 0, &mut search), 0);
        assert_eq!(search.undelivered(&share, 2), None);
        let mut search = Search::of_kept(25, 15);
        assert_eq!(find(&[10], 1, &mut search), 1);
        assert_eq!(search.undelivered(&share, 2), None, "the message is delivered");
    }

    #[test]
    fn messages_that_have_waited_too_long_are_found() {
        let times = [10, 20, 30, 40, 50];
        // Three are delivered. Delivered ones are kept from 25 on, and all others from 15 on.
        assert_eq!(found(&times, 3, Search::of_kept(25, 15)), 2);
        // None is delivered: waiting messages are kept from 15 on.
        assert_eq!(found(&times, 0, Search::of_kept(25, 15)), 1);
        assert_eq!(found(&times, 0, Search::of_kept(0, 45)), 4);
        assert_eq!(found(&times, 2, Search::of_kept(u64::MAX, 0)), 2);
        assert_eq!(found(&times, 5, Search::of_kept(99, 99)), 5, "all are too old");
    }
}
