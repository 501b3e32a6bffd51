//! Appends messages to the log of a pipeline. This process owns all partitions: an earlier owner is refused from then
//! on, and nothing is stored behind a record that has failed. So the records of a key are in order, and a batch that
//! comes again repeats records and skips none.
//!
//! Where a partition is full, its oldest delivered messages are removed before their time: they are there for a replay
//! only. Other partitions keep theirs, and their records are not appended again.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_bus::{Append, Bounds, Bus, BusError, Done, Epoch, LogPartition, Position};
use tidegate_context::partition_of;

use super::{Sink, SinkError};
use crate::log::{LogSettings, Names, SharedState, states, wait};
use crate::open_error::OpenError;
use crate::record::Record;

/// Of the delivered messages of a full partition, this fraction (one in `n`) is removed at once.
const REMOVED_SHARE: u64 = 8;
/// How often a batch is appended at once while there is room to make. Then it fails as away, and comes again later.
const MAX_ROUNDS: usize = 8;
/// States that are read at once.
const STATES_BATCH: usize = 256;

pub(super) struct LogSink {
    settings: LogSettings,
    names: Names,
    bus: Option<Bus>,
    /// Of each partition; nothing where this process is not the owner.
    epochs: Vec<Option<Epoch>>,
    /// Below this a full partition has no messages. Its bounds do not show that where the bus keeps a claim in front.
    removed: BTreeMap<u32, Position>,
    /// Stored records of batches that come again because of other records.
    stored: Vec<Weak<Record>>,
}

/// Why records of a batch are not stored.
struct Failure {
    error: BusError,
    /// The records that each full partition is to take; empty when something else has failed.
    full: BTreeMap<u32, u64>,
}

impl Failure {
    /// Of the first error of each partition, and how many records it has failed.
    fn of(partitions: BTreeMap<u32, (BusError, u64)>) -> Option<Self> {
        let is_full = |error: &BusError| matches!(error, BusError::Full { .. });
        let mut errors = partitions.values().map(|(error, _)| error);
        let error = errors.clone().find(|error| !is_full(error)).or_else(|| errors.next())?.clone();
        let full = if is_full(&error) {
            partitions.into_iter().map(|(partition, (_, records))| (partition, records)).collect()
        } else {
            BTreeMap::new()
        };
        Some(Self { error, full })
    }
}

impl LogSink {
    /// A sink that has not spoken to the bus yet.
    ///
    /// # Errors
    /// In words, when the name of the pipeline cannot be one on the bus.
    pub(super) fn new(settings: &LogSettings) -> Result<Self, OpenError> {
        let epochs = (0..settings.partitions).map(|_| None).collect();
        let (removed, stored) = (BTreeMap::new(), Vec::new());
        Ok(Self { names: settings.names()?, settings: settings.clone(), bus: None, epochs, removed, stored })
    }

    fn open(&mut self) -> Result<Bus, BusError> {
        if let Some(bus) = &self.bus {
            return Ok(bus.clone());
        }
        let bus = Bus::open(&self.settings.address, self.settings.bus.clone(), Arc::new(|_| {}))?;
        wait(|done| bus.create(self.settings.messages(&self.names), done))?;
        wait(|done| bus.create(states(&self.names), done))?;
        self.bus = Some(bus.clone());
        Ok(bus)
    }

    /// Owns the partitions whose owner this process is not.
    fn own(&mut self, bus: &Bus) -> Result<(), Failure> {
        for (partition, epoch) in (0..).zip(&mut self.epochs).filter(|(_, epoch)| epoch.is_none()) {
            let place = LogSettings::place(&self.names, partition);
            match wait(|done| bus.own(&place, done)) {
                Ok(owned) => *epoch = Some(owned),
                Err(error) => {
                    let full = matches!(error, BusError::Full { .. }).then_some((partition, 1));
                    return Err(Failure { error, full: full.into_iter().collect() });
                }
            }
        }
        Ok(())
    }

    fn partition(&self, record: &Record) -> u32 {
        partition_of(record.key().as_bytes(), self.settings.partitions)
    }

    fn epoch(&mut self, partition: u32) -> Option<&mut Option<Epoch>> {
        self.epochs.get_mut(usize::try_from(partition).ok()?)
    }

    /// Appends records at once. Only missing records remain in `left`.
    fn append(&mut self, bus: &Bus, left: &mut Vec<&Arc<Record>>) -> Result<(), Failure> {
        self.own(bus)?;
        let (tell, told) = channel();
        let mut refused = None;
        for (at, record) in left.iter().enumerate() {
            let tell = tell.clone();
            // A receiver that has gone needs no outcome.
            let done = Box::new(move |outcome: Result<_, BusError>| drop(tell.send((at, outcome.map(|_| ())))));
            if let Err(error) = self.send(bus, record, done) {
                refused = Some((at, error));
                break;
            }
        }
        drop(tell);
        let mut outcomes: Vec<Result<(), BusError>> = vec![Err(BusError::Stopped); left.len()];
        for (at, outcome) in told {
            if let Some(place) = outcomes.get_mut(at) {
                *place = outcome;
            }
        }
        let sent = refused.as_ref().map_or(left.len(), |(at, _)| *at);
        let mut failed: BTreeMap<u32, (BusError, u64)> = BTreeMap::new();
        let mut remaining = Vec::new();
        for (at, (record, outcome)) in left.drain(..).zip(outcomes).enumerate() {
            let Err(error) = outcome else { continue };
            let partition = self.partition(record);
            let error = match &refused {
                // It was not sent, nor was any behind it: this process stays the owner.
                Some((_, refused)) if at >= sent => refused.clone(),
                _ => {
                    if let Some(epoch) = self.epoch(partition) {
                        *epoch = None;
                    }
                    error
                }
            };
            failed.entry(partition).or_insert((error, 0)).1 += 1;
            remaining.push(record);
        }
        *left = remaining;
        Failure::of(failed).map_or(Ok(()), Err)
    }

    fn send(&mut self, bus: &Bus, record: &Record, done: Done<Position>) -> Result<(), BusError> {
        let partition = self.partition(record);
        let place = LogSettings::place(&self.names, partition);
        let Some(epoch) = self.epoch(partition).copied().flatten() else { return Err(BusError::NoEpoch(place)) };
        bus.append(&place, Append::new(record.body()).by(epoch), done)
    }

    /// Appends records. While partitions are full, delivered messages make room. Only missing records remain in `left`.
    fn append_with_room(&mut self, left: &mut Vec<&Arc<Record>>) -> Result<(), BusError> {
        let bus = self.open()?;
        let mut rounds = 0;
        loop {
            let Err(failure) = self.append(&bus, left) else { return Ok(()) };
            rounds += 1;
            if rounds >= MAX_ROUNDS || failure.full.is_empty() || !self.make_room(&bus, &failure.full)? {
                return Err(failure.error);
            }
        }
    }

    /// Removes the oldest delivered messages of full partitions. Returns true if one of them had some: the limit may be
    /// one of the whole bus.
    fn make_room(&mut self, bus: &Bus, full: &BTreeMap<u32, u64>) -> Result<bool, BusError> {
        let state = self.read_states(bus)?;
        let mut ends = Vec::new();
        for (partition, coming) in full {
            let mark = state.mark(*partition);
            // A replay that the partition has not begun may ask for all that there is.
            if mark.generation < state.replay.number {
                continue;
            }
            let place = LogSettings::place(&self.names, *partition);
            let bounds = wait(|done| bus.bounds(&place, done))?;
            let removed = self.removed.get(partition).copied().unwrap_or_default();
            let Some(below) = removable(bounds, removed, mark.position, *coming) else { continue };
            ends.push((*partition, place, below));
        }
        let has_made_room = !ends.is_empty();
        for (partition, place, below) in ends {
            wait(|done| bus.trim(&place, below, done))?;
            self.removed.insert(partition, below);
            tracing::info!(
                pipeline = self.settings.pipeline,
                partition,
                below = below.0,
                "delivered messages were removed from the full log: a replay does not have them"
            );
        }
        Ok(has_made_room)
    }

    /// The records of a batch that are not stored.
    fn missing<'a>(&mut self, batch: &'a [Arc<Record>]) -> Vec<&'a Arc<Record>> {
        self.stored.retain(|record| record.strong_count() > 0);
        let stored: HashSet<*const Record> = self.stored.iter().map(Weak::as_ptr).collect();
        batch.iter().filter(|record| !stored.contains(&Arc::as_ptr(record))).collect()
    }

    /// The states that the processes of the hub have written.
    fn read_states(&self, bus: &Bus) -> Result<SharedState, BusError> {
        let place = LogPartition::new(self.names.states.clone(), 0);
        let end = wait(|done| bus.bounds(&place, done))?.next;
        let (wake, woken) = channel();
        // A reader that is behind the last record needs no wake.
        let mut reader = bus.read(&place, Position::START, Arc::new(move || _ = wake.send(())))?;
        let mut state = SharedState::default();
        loop {
            let taken = reader.take(STATES_BATCH)?;
            taken.records.iter().for_each(|record| state.take(record));
            if taken.next >= end {
                return Ok(state);
            }
            if taken.records.is_empty() && woken.recv_timeout(self.patience()).is_err() {
                let reason = "the states of the pipeline did not come".to_owned();
                return Err(BusError::Away { waited: self.patience(), reason });
            }
        }
    }

    fn patience(&self) -> Duration {
        self.settings.bus.max_waiting_time
    }
}

/// The position below which a full partition loses delivered messages: at least `coming` messages, if as many are
/// delivered. `None` if none is delivered. Messages below `removed` were removed before. A mark beyond the end belongs to
/// an earlier log of the same name.
fn removable(bounds: Bounds, removed: Position, delivered: u64, coming: u64) -> Option<Position> {
    if delivered > bounds.next.0 {
        return None;
    }
    let first = if removed > bounds.next { bounds.first } else { bounds.first.max(removed) };
    let there = delivered.checked_sub(first.0).filter(|there| *there > 0)?;
    Some(Position(first.0 + (there / REMOVED_SHARE).max(coming).min(there)))
}

impl Sink for LogSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let missing = self.missing(batch);
        let mut left = missing.clone();
        let Err(error) = self.append_with_room(&mut left) else { return Ok(()) };
        let left: HashSet<*const Record> = left.into_iter().map(Arc::as_ptr).collect();
        self.stored.extend(missing.into_iter().filter(|it| !left.contains(&Arc::as_ptr(it))).map(Arc::downgrade));
        if matches!(error, BusError::Unknown(_)) {
            // The servers have lost the log: it is made again.
            self.bus = None;
            self.epochs.fill(None);
            self.removed.clear();
            self.stored.clear();
        }
        match error {
            BusError::TooLarge { .. } => Err(SinkError::Refused(error.to_string())),
            _ => Err(SinkError::away(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_bus::{Address, Settings};

    use super::*;
    use crate::log::{Mark, mark_record};
    use crate::message::Message;
    use crate::record::Content;

    /// Bytes of a message: 16 fill the partition.
    const LARGE: usize = 64 << 10;

    fn sink() -> LogSink {
        sink_of(1)
    }

    fn sink_of(partitions: u32) -> LogSink {
        let settings = LogSettings {
            pipeline: "p".to_owned(),
            address: Address::Embedded,
            bus: Settings::default(),
            partitions,
            max_bytes: u64::from(partitions) << 20,
            wait: Duration::from_secs(3600),
            keep: Duration::from_secs(3600),
            window: 1,
            member: "m".to_owned(),
        };
        LogSink::new(&settings).unwrap()
    }

    fn batch() -> Vec<Arc<Record>> {
        vec![record("t")]
    }

    fn record(topic: &str) -> Arc<Record> {
        let message = Message { topic: topic.to_owned(), ..Message::default() };
        Arc::new(Record::new(Arc::new(message), Content::Logged(vec![0; LARGE])))
    }

    /// A record that goes to one of two partitions.
    fn record_to(partition: u32) -> Arc<Record> {
        let mut topics = (0..).map(|number: u32| number.to_string());
        record(&topics.find(|topic| partition_of(topic.as_bytes(), 2) == partition).unwrap())
    }

    fn bounds(sink: &mut LogSink) -> Bounds {
        bounds_of(sink, 0)
    }

    fn bounds_of(sink: &mut LogSink, partition: u32) -> Bounds {
        let bus = sink.open().unwrap();
        wait(|done| bus.bounds(&LogSettings::place(&sink.names, partition), done)).unwrap()
    }

    /// Says that all messages of a partition below a position are delivered.
    fn deliver(sink: &mut LogSink, partition: u32, position: u64) {
        let (bus, states) = (sink.open().unwrap(), LogPartition::new(sink.names.states.clone(), 0));
        let mark = Mark { generation: 0, position };
        wait(|done| bus.append(&states, mark_record(partition, mark), done)).unwrap();
    }

    /// A sink whose first partition of two is full; the second has three delivered messages.
    fn half_full() -> LogSink {
        let mut sink = sink_of(2);
        for _ in 0..3 {
            sink.write(&[record_to(1)]).unwrap();
        }
        while sink.write(&[record_to(0)]).is_ok() {}
        let next = bounds_of(&mut sink, 1).next;
        deliver(&mut sink, 1, next.0);
        sink
    }

    #[test]
    fn room_is_made_in_full_partitions_only() {
        let mut sink = half_full();
        let (full, other) = (bounds_of(&mut sink, 0), bounds_of(&mut sink, 1));
        deliver(&mut sink, 0, full.first.0 + 6);
        sink.write(&[record_to(0), record_to(1), record_to(0)]).unwrap();
        assert!(bounds_of(&mut sink, 0).first > full.first);
        let after = bounds_of(&mut sink, 1);
        assert_eq!(after.first, other.first, "a partition with room keeps its messages for a replay");
        assert_eq!(after.next, other.next.next(), "its record is stored once, and it is not owned again");
    }

    #[test]
    fn a_batch_that_waits_for_room_is_not_stored_again() {
        let mut sink = half_full();
        let (full, other) = (bounds_of(&mut sink, 0), bounds_of(&mut sink, 1));
        let batch = [record_to(1), record_to(0), record_to(1)];
        for _ in 0..3 {
            let error = sink.write(&batch).unwrap_err();
            assert!(matches!(&error, SinkError::Away(why) if why.contains("full")), "{error:?}");
        }
        assert_eq!(bounds_of(&mut sink, 0).first, full.first, "undelivered messages stay");
        let after = bounds_of(&mut sink, 1);
        assert_eq!((after.first, after.next.0), (other.first, other.next.0 + 2));
        deliver(&mut sink, 0, full.first.0 + 6);
        sink.write(&batch).unwrap();
        assert_eq!(bounds_of(&mut sink, 1), after);
        sink.write(&[record_to(1)]).unwrap();
        assert_eq!(bounds_of(&mut sink, 1).next, after.next.next(), "another record is stored");
    }

    #[test]
    fn delivered_messages_make_room_in_a_full_log() {
        let mut sink = sink();
        let full = loop {
            if let Err(error) = sink.write(&batch()) {
                break error;
            }
        };
        assert!(matches!(&full, SinkError::Away(why) if why.contains("full")), "{full:?}");
        let before = bounds(&mut sink);
        let delivered = before.first.0 + 6;
        deliver(&mut sink, 0, delivered);
        sink.write(&batch()).unwrap();
        let first = bounds(&mut sink).first.0;
        assert!(first > before.first.0 && first < delivered, "no more is removed than has to be: {first}");
        while sink.write(&batch()).is_ok() {}
        assert_eq!(bounds(&mut sink).first.0, delivered, "undelivered messages stay");
    }

    #[test]
    fn a_replay_that_has_not_begun_keeps_its_messages() {
        let mut sink = sink();
        while sink.write(&batch()).is_ok() {}
        let (bus, before) = (sink.open().unwrap(), bounds(&mut sink));
        let states = LogPartition::new(sink.names.states.clone(), 0);
        let mark = Mark { generation: 0, position: before.next.0 };
        let replay = crate::log::Replay { number: 7, from: 0 };
        for state in [mark_record(0, mark), crate::log::replay_record(replay)] {
            wait(|done| bus.append(&states, state, done)).unwrap();
        }
        sink.write(&batch()).unwrap_err();
        assert_eq!(bounds(&mut sink).first, before.first);
    }

    #[test]
    fn a_share_of_the_delivered_messages_is_removed() {
        let bounds = Bounds { first: Position(10), next: Position(1000) };
        let removable = |delivered, coming| removable(bounds, Position::START, delivered, coming);
        assert_eq!(removable(10, 5), None);
        assert_eq!(removable(12, 5), Some(Position(12)));
        assert_eq!(removable(810, 5), Some(Position(110)));
        assert_eq!(removable(1000, 2000), Some(Position(1000)));
        assert_eq!(removable(1001, 5), None, "the mark is of a log that was there before");
    }

    #[test]
    fn a_claim_in_front_does_not_hide_removals() {
        let bounds = Bounds { first: Position(1), next: Position(1000) };
        let (mut removed, mut rounds) = (Position::START, 0);
        while let Some(below) = removable(bounds, removed, 900, 5) {
            assert!(below > removed, "{below}");
            (removed, rounds) = (below, rounds + 1);
        }
        assert!(removed == Position(900) && rounds < 100, "{removed} after {rounds}");
        let made_again = Bounds { first: Position(1), next: Position(800) };
        assert_eq!(removable(made_again, removed, 17, 5), Some(Position(6)), "an earlier log does not count");
    }
}
