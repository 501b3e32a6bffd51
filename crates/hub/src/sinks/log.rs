//! Appends messages to the log of a pipeline. This process owns all partitions: an earlier owner is refused from then
//! on, and nothing is stored behind a record that has failed. So the records of a key are in order, and a batch that
//! comes again repeats records and skips none.

use std::sync::Arc;
use std::sync::mpsc::channel;

use tidegate_bus::{Append, Bus, BusError, Epoch};
use tidegate_context::partition_of;

use super::{Sink, SinkError};
use crate::log::{LogSettings, Names, states, wait};
use crate::open_error::OpenError;
use crate::record::Record;

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
}

impl Sink for LogSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let error = match self.append(batch) {
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
