//! The record that names a QoS 2 message which crosses between nodes.

use crate::link::got::Got;
use crate::wire::{WireError, WireReader, WireWrite};

/// The kind of [`Record::Exchange`](super::record::Record::Exchange).
pub(super) const EXCHANGE_KIND: u8 = 46;

/// The name of the message that comes next on this link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeWord {
    pub name: ExchangeName,
    /// Exchanges of this origin with lower numbers are finished.
    pub done_below: u64,
    /// The partitions that have got the message. None at the first send.
    pub covered: Got,
}

impl ExchangeWord {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.put_u8(EXCHANGE_KIND);
        out.put_u64(self.name.origin);
        out.put_u64(self.name.number);
        out.put_u64(self.done_below);
        self.covered.write(out);
    }

    pub(super) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let name = ExchangeName::read(reader)?;
        Ok(Self { name, done_below: reader.u64("an exchange")?, covered: Got::read(reader)? })
    }
}

/// The name of an exchange: the life of the shard where it began, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExchangeName {
    pub origin: u64,
    pub number: u64,
}

impl ExchangeName {
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.put_u64(self.origin);
        out.put_u64(self.number);
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self { origin: reader.u64("an origin")?, number: reader.u64("an exchange")? })
    }
}
