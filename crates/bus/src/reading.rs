//! Reading a partition.

use crate::{BusError, Position, Record};

/// What was taken from a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// In order, each once.
    pub records: Vec<Record>,
    /// Where to read on: everything below was given, by this call or an earlier one. It also passes positions that have no
    /// record for the reader, such as claims.
    pub next: Position,
}

/// Where a reading's records come from.
pub(crate) trait ReadingSource: Send {
    /// As [`Reader::take`].
    fn take(&mut self, max: usize) -> Result<Taken, BusError>;
}

/// Reads one partition from a position on, to the end and on as records come. Dropping it ends it.
pub struct Reader {
    source: Box<dyn ReadingSource>,
}

impl Reader {
    pub(crate) fn new(source: Box<dyn ReadingSource>) -> Self {
        Self { source }
    }

    /// Takes what is there, at most so many records; none when there are none yet. Only what is confirmed is given.
    ///
    /// # Errors
    /// When what comes next has been trimmed, when the bus refuses to be read, and when it has stopped. It does not end
    /// because the bus is away: then nothing comes until it is back.
    pub fn take(&mut self, max: usize) -> Result<Taken, BusError> {
        self.source.take(max)
    }
}
