//! A QoS 2 message of a client that has crossed to other nodes.

use crate::link::envelope::Ticket;
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::wire::{WireError, WireReader};

/// A QoS 2 message of a client that has crossed to other nodes, as long as its packet id is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub name: ExchangeName,
    /// The partitions that have it at the publisher's node.
    pub covered: Got,
    /// Whether all nodes have confirmed it.
    pub answered: bool,
    /// Whether a node may have died before it got it: one that lives gets it, also while partitions move.
    pub doubtful: bool,
    /// Under which nodes were asked to confirm it last, by this process.
    pub ticket: Option<Ticket>,
}

impl Exchange {
    /// The form in an image.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.name.write(out);
        self.covered.write(out);
    }

    /// The form in the store.
    pub(crate) fn write_stored(&self, out: &mut Vec<u8>) {
        self.name.write(out);
        self.covered.write_stored(out);
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let name = ExchangeName::read(reader)?;
        Ok(Self::left(name, Got::read(reader)?))
    }

    /// The same from a store.
    pub(crate) fn read_stored(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let name = ExchangeName::read(reader)?;
        Ok(Self::left(name, Got::read_stored(reader)?))
    }

    /// An exchange of an earlier process, or of another one: its state is unknown here.
    pub(crate) fn left(name: ExchangeName, covered: Got) -> Self {
        Self { name, covered, answered: false, doubtful: true, ticket: None }
    }
}
