//! Removals of retained messages are read from the store.

use crate::engine::facets::MoveCalls;
use crate::ids::{PartitionId, TenantId, partition_of};
use crate::retained::removed::RemovedImage;
use crate::wire::{WireError, WireReader};

impl MoveCalls<'_> {
    /// Reads the output of `put_removed`.
    pub(crate) fn read_removed(reader: &mut WireReader<'_>, partition: PartitionId) -> Result<RemovedImage, WireError> {
        let count = reader.u32("a number of removed values")?;
        let mut all = Vec::new();
        for _ in 0..count {
            let (tenant, topic) = (TenantId(reader.u16("a tenant")?), reader.text("a topic")?.to_owned());
            if partition_of(tenant, &topic) != partition {
                return Err(WireError { reading: "a removed value of this partition" });
            }
            all.push((tenant, topic, reader.u64("a version")?));
        }
        Ok(all)
    }
}
