//! The archive of a pipeline: it keeps messages as they came.

use std::sync::Arc;

use super::{Sink, SinkError};
use crate::archive::ArchiveSettings;
use crate::record::Record;
use crate::segments::SegmentWriter;

pub(super) struct ArchiveSink {
    segments: SegmentWriter,
}

impl ArchiveSink {
    pub(super) fn new(settings: &ArchiveSettings) -> Self {
        Self { segments: SegmentWriter::new(settings.folder.clone(), settings.bounds()) }
    }
}

impl Sink for ArchiveSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        // Messages of a replay are there already.
        let new = batch.iter().filter(|record| !record.message.archived);
        let lines: Vec<u8> = new.flat_map(|record| record.message.to_line()).collect();
        if lines.is_empty() {
            return Ok(());
        }
        self.segments.append(&lines).map_err(SinkError::away)
    }
}
