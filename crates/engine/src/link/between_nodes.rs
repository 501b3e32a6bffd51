//! Batches as bytes, for shards of other nodes.

use std::sync::Arc;

use super::envelope::{BatchHead, Foreign};
use super::{Batch, BatchPosition};
use crate::ids::ShardId;
use crate::now::Millis;
use crate::wire::{WireError, WireReader, WireWrite};

/// Version of the layout; a reader refuses others.
const BATCH_VERSION: u8 = 1;

impl Batch {
    /// Appends the batch as another node reads it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.put_u8(BATCH_VERSION);
        out.put_u16(self.from.0);
        out.put_u64(self.head.opened_at.0);
        out.put_u64(self.head.first_sequence);
        out.put_u64(self.cost);
        out.put_u32(self.messages);
        out.put_bytes(&self.bytes);
        out.put_u32(self.shared.len() as u32);
        for payload in &self.shared {
            out.put_bytes(payload);
        }
    }

    /// Reads a batch of another node. `from` is the number of the writing shard in this roster; `shift` is added to the
    /// monotonic times of that node, milliseconds.
    ///
    /// # Errors
    /// When the bytes are no batch of this version. Its records are checked when they are handled.
    pub fn read_from(bytes: &[u8], from: ShardId, shift: i64) -> Result<Self, WireError> {
        let mut reader = WireReader::new(bytes);
        if reader.u8("a batch")? != BATCH_VERSION {
            return Err(WireError { reading: "a batch of version 1" });
        }
        let number = ShardId(reader.u16("a shard")?);
        let foreign = Some(Foreign { number, shift });
        let opened_at = Millis(reader.u64("a time")?.saturating_add_signed(shift));
        let head = BatchHead { from, opened_at, first_sequence: reader.u64("a sequence")?, foreign };
        let cost = reader.u64("a cost")?;
        let messages = reader.u32("a number of messages")?;
        let bytes = reader.bytes("records")?.to_vec();
        let mut shared: Vec<Arc<[u8]>> = Vec::new();
        for _ in 0..reader.u32("a number of payloads")? {
            shared.push(reader.bytes("a payload")?.into());
        }
        if !reader.is_empty() {
            return Err(WireError { reading: "the end of a batch" });
        }
        Ok(Self {
            from,
            head,
            bytes,
            shared,
            cost,
            messages,
            promises: false,
            spares: Vec::new(),
            position: BatchPosition::default(),
        })
    }
}
