//! A blocking interface of the bus.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tidegate_bus::{Bus, BusError, Done, LogPartition, Position, Reader, Record};

/// How often a wait looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// Records taken from a reader at once.
const TAKE: usize = 1_024;

/// Asks and waits for the answer, unless it shall end.
pub(crate) fn ask<T: Send + 'static>(
    ends: &dyn Fn() -> bool,
    call: impl FnOnce(Done<T>) -> Result<(), BusError>,
) -> Result<T, BusError> {
    let (sender, outcome) = channel();
    call(Box::new(move |result| {
        let _ = sender.send(result);
    }))?;
    loop {
        match outcome.recv_timeout(LOOK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if !ends() => {}
            Err(_) => return Err(BusError::Stopped),
        }
    }
}

/// A reader of a part of a log that waits for it.
pub(crate) struct Range {
    reader: Reader,
    bell: Receiver<()>,
    to: Position,
}

impl Range {
    /// Begins to read from a position on to below another one, which the log has reached.
    pub(crate) fn new(bus: &Bus, place: &LogPartition, from: Position, to: Position) -> Result<Self, BusError> {
        let (sender, bell) = channel();
        let wake = Arc::new(move || {
            let _ = sender.send(());
        });
        Ok(Self { reader: bus.read(place, from, wake)?, bell, to })
    }

    /// The next records; none when there are no more.
    pub(crate) fn take(&mut self, ends: &dyn Fn() -> bool) -> Result<Vec<Record>, BusError> {
        loop {
            let mut taken = self.reader.take(TAKE)?;
            taken.records.retain(|record| record.position < self.to);
            if !taken.records.is_empty() || taken.next >= self.to {
                return Ok(taken.records);
            }
            if ends() {
                return Err(BusError::Stopped);
            }
            // The bell may have rung for an answer that was taken already.
            let _ = self.bell.recv_timeout(LOOK);
        }
    }
}
