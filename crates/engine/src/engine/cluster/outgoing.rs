//! Messages that are owed to other nodes are read from the store.

use crate::cluster::outgoing::OutgoingMessage;
use crate::engine::facets::MoveCalls;
use crate::ids::PartitionId;
use crate::now::Now;
use crate::records::image::read_message as read_publication;
use crate::wire::{WireError, WireReader};

impl MoveCalls<'_> {
    /// Reads the output of `put_outgoing`.
    pub(crate) fn read_outgoing(
        reader: &mut WireReader<'_>,
        now: Now,
        partition: PartitionId,
    ) -> Result<Vec<OutgoingMessage>, WireError> {
        let count = reader.u32("a number of outgoing messages")?;
        let mut all = Vec::new();
        for _ in 0..count {
            let head = OutgoingMessage::read_head(reader)?;
            let message = read_publication(reader, now, head.tenant)?;
            let it = head.with(message);
            if it.partition() != partition {
                return Err(WireError { reading: "an outgoing message of this partition" });
            }
            all.push(it);
        }
        Ok(all)
    }
}
