//! The memory that the records of one message may take.

use super::error::{ComputeError, MAX_RECORD_BYTES};

/// The bytes of the records of a FOREACH so far.
#[derive(Debug, Default)]
pub(super) struct Budget {
    taken: usize,
}

impl Budget {
    /// Adds a record of this number of bytes.
    ///
    /// # Errors
    /// When all records together have more than [`MAX_RECORD_BYTES`].
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), ComputeError> {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken > MAX_RECORD_BYTES { Err(ComputeError::TooManyBytes) } else { Ok(()) }
    }

    /// The bytes of all records.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }
}
