//! Appends messages to the log of a pipeline. This process owns all partitions: an earlier owner is refused from then
//! on, and nothing is stored behind a record that has failed. So the records of a key are in order, and a batch that
//! comes again repeats records and skips none.
//!
//! Where the log is full, the oldest delivered messages are removed before their time: they are there for a replay only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tidegate_bus::{Append, Bounds, Bus, BusError, Epoch, Place, Position};
use tidegate_context::partition_of;

use super::{Sink, SinkError};
use crate::log::{LogSettings, Names, SharedState, states, wait};
use crate::open_error::OpenError;
use crate::record::Record;

/// Of the delivered messages of a full partition, one in so many is removed at once.
const REMOVED_SHARE: u64 = 8;
/// States that are read at once.
const STATES_BATCH: usize = 256;

pub(super) struct LogSink {
    settings: LogSettings,
    names: Names,
    bus: Option<Bus>,
    /// Of each partition; empty when this process does not own them.
    epochs: Vec<Epoch>,
}

impl LogSink {
    /// A sink that has not spoken to the bus yet.
    ///
    /// # Errors
    /// In words, when the name of the pipeline cannot be one on the bus.
    pub(super) fn new(settings: &LogSettings) -> Result<Self, OpenError> {
        Ok(Self { names: settings.names()?, settings: settings.clone(), bus: None, epochs: Vec::new() })
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

    /// Owns all partitions.
    fn own(&mut self, bus: &Bus) -> Result<(), BusError> {
        if self.epochs.is_empty() {
            let places = (0..self.settings.partitions).map(|number| LogSettings::place(&self.names, number));
            self.epochs = places.map(|place| wait(|done| bus.own(&place, done))).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    fn append(&mut self, batch: &[Arc<Record>]) -> Result<(), BusError> {
        let bus = self.open()?;
        self.own(&bus)?;
        let (tell, outcomes) = channel();
        for record in batch {
            let partition = partition_of(record.key().as_bytes(), self.settings.partitions);
            let Some(epoch) = usize::try_from(partition).ok().and_then(|at| self.epochs.get(at)) else { continue };
            let append = Append::new(record.body()).by(*epoch);
            let tell = tell.clone();
            // A receiver that has gone needs no outcome.
            let done = Box::new(move |outcome: Result<_, BusError>| drop(tell.send(outcome.map(|_| ()))));
            bus.append(&LogSettings::place(&self.names, partition), append, done)?;
        }
        drop(tell);
        outcomes.iter().collect()
    }

    /// Appends a batch. While the log is full, delivered messages make room.
    fn append_with_room(&mut self, batch: &[Arc<Record>]) -> Result<(), BusError> {
        loop {
            let error = match self.append(batch) {
                Err(error @ BusError::Full { .. }) => error,
                outcome => return outcome,
            };
            self.epochs.clear();
            let bus = self.open()?;
            if !self.remove_delivered(&bus, batch)? {
                return Err(error);
            }
        }
    }

    /// Removes the oldest delivered messages of the partitions of a batch. Returns whether there were any.
    fn remove_delivered(&self, bus: &Bus, batch: &[Arc<Record>]) -> Result<bool, BusError> {
        let state = self.read_states(bus)?;
        let partitions: BTreeSet<u32> =
            batch.iter().map(|record| partition_of(record.key().as_bytes(), self.settings.partitions)).collect();
        let mut has_removed = false;
        for partition in partitions {
            let mark = state.mark(partition);
            // A replay that the partition has not begun may ask for all that there is.
            if mark.generation < state.replay.number {
                continue;
            }
            let place = LogSettings::place(&self.names, partition);
            let bounds = wait(|done| bus.bounds(&place, done))?;
            let Some(below) = removable(bounds, mark.position, batch.len() as u64) else { continue };
            wait(|done| bus.trim(&place, below, done))?;
            has_removed = true;
            tracing::info!(
                pipeline = self.settings.pipeline,
                partition,
                below = below.0,
                "delivered messages were removed from the full log: a replay does not have them"
            );
        }
        Ok(has_removed)
    }

    /// The states that the processes of the hub have written.
    fn read_states(&self, bus: &Bus) -> Result<SharedState, BusError> {
        let place = Place::new(self.names.states.clone(), 0);
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

/// The end of the delivered messages to remove from a full partition, at least as many as come; nothing where none is
/// delivered.
fn removable(bounds: Bounds, delivered: u64, coming: u64) -> Option<Position> {
    let there = delivered.min(bounds.next.0).checked_sub(bounds.first.0).filter(|there| *there > 0)?;
    Some(Position(bounds.first.0 + (there / REMOVED_SHARE).max(coming).min(there)))
}

impl Sink for LogSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let error = match self.append_with_room(batch) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // Also an append that was refused at once: others of the batch may have failed since.
        self.epochs.clear();
        if matches!(error, BusError::Unknown(_)) {
            // The servers have lost the log: it is made again.
            self.bus = None;
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
        let settings = LogSettings {
            pipeline: "p".to_owned(),
            address: Address::Embedded,
            bus: Settings::default(),
            partitions: 1,
            max_bytes: 1 << 20,
            wait: Duration::from_secs(3600),
            keep: Duration::from_secs(3600),
            window: 1,
            member: "m".to_owned(),
        };
        LogSink::new(&settings).unwrap()
    }

    fn batch() -> Vec<Arc<Record>> {
        let message = Message { topic: "t".to_owned(), ..Message::default() };
        vec![Arc::new(Record::new(Arc::new(message), Content::Logged(vec![0; LARGE])))]
    }

    fn bounds(sink: &mut LogSink) -> Bounds {
        let bus = sink.open().unwrap();
        wait(|done| bus.bounds(&LogSettings::place(&sink.names, 0), done)).unwrap()
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
        let bus = sink.open().unwrap();
        let states = Place::new(sink.names.states.clone(), 0);
        let mark = Mark { generation: 0, position: before.first.0 + 6 };
        wait(|done| bus.append(&states, mark_record(0, mark), done)).unwrap();
        sink.write(&batch()).unwrap();
        let first = bounds(&mut sink).first.0;
        assert!(first > before.first.0 && first < mark.position, "no more is removed than has to be: {first}");
        while sink.write(&batch()).is_ok() {}
        assert_eq!(bounds(&mut sink).first.0, mark.position, "undelivered messages stay");
    }

    #[test]
    fn a_replay_that_has_not_begun_keeps_its_messages() {
        let mut sink = sink();
        while sink.write(&batch()).is_ok() {}
        let (bus, before) = (sink.open().unwrap(), bounds(&mut sink));
        let states = Place::new(sink.names.states.clone(), 0);
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
        assert_eq!(removable(bounds, 10, 5), None);
        assert_eq!(removable(bounds, 12, 5), Some(Position(12)));
        assert_eq!(removable(bounds, 810, 5), Some(Position(110)));
        assert_eq!(removable(bounds, 5000, 2000), Some(Position(1000)));
    }
}
