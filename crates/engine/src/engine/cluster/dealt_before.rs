//! Exchanges of shared groups are read from the store.

use crate::cluster::exchanges::dealt_before::DealtBefore;
use crate::engine::facets::MoveCalls;
use crate::ids::Partitions;
use crate::link::exchange_word::ExchangeName;
use crate::wire::{WireError, WireReader};

impl MoveCalls<'_> {
    /// Reads the output of `put_dealt_before`.
    pub(crate) fn read_dealt_before(reader: &mut WireReader<'_>) -> Result<DealtBefore, WireError> {
        let count = reader.u32("a number of messages that were dealt")?;
        (0..count).map(|_| Ok((ExchangeName::read(reader)?, Partitions::read(reader)?))).collect()
    }
}
