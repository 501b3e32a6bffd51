//! A lane on its thread: it brings one batch after the other to its sink.

use std::sync::mpsc::{Receiver, Sender};

use crate::core::{Batch, Outcome};
use crate::sinks::{Sink, SinkError};
use crate::sources::Wake;

/// The thread of a lane.
pub(super) struct LaneThread {
    pub(super) number: usize,
    pub(super) sink: Box<dyn Sink>,
    pub(super) batches: Receiver<Batch>,
    pub(super) outcomes: Sender<(usize, Outcome)>,
    pub(super) wake: Wake,
}

impl LaneThread {
    /// Works until its pipeline has ended.
    pub(super) fn run(mut self) {
        while let Ok(batch) = self.batches.recv() {
            let outcome = match self.sink.write(&batch) {
                Ok(()) => Outcome::Done,
                Err(SinkError::Away(why)) => Outcome::Away(why),
                Err(SinkError::Limited(why)) => Outcome::Limited(why),
                Err(SinkError::Refused(why)) => Outcome::Refused(why),
            };
            // The records end on the thread of the pipeline, which has made them.
            drop(batch);
            if self.outcomes.send((self.number, outcome)).is_err() {
                return;
            }
            (self.wake)();
        }
    }
}
