//! No place at all: records are counted and dropped. It shows what the pipeline itself costs, and how it works on messages
//! before there is a place for them.

use std::sync::Arc;

use super::{Sink, SinkError};
use crate::record::Record;

pub(super) struct DiscardSink;

impl Sink for DiscardSink {
    fn write(&mut self, _batch: &[Arc<Record>]) -> Result<(), SinkError> {
        Ok(())
    }
}
