//! Messages between shards about the dealers of the shared groups' partitions.

use crate::ids::Partitions;
use crate::link::exchange_word::ExchangeName;
use crate::partitions::put_partitions;
use crate::wire::{WireError, WireReader, WireWrite};

/// The kind of [`Record::Dealing`](super::record::Record::Dealing).
pub(super) const DEALING_KIND: u8 = 45;

/// A word about dealing. All but the last one say all that holds from now on, in line with the sender's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DealingWord {
    /// Another shard than the receiver deals the sender's messages to groups of these partitions.
    Elsewhere { partitions: Partitions },
    /// The sender takes the receiver for the home of these partitions. `all` says that it has given all of its members
    /// their seats there, `round` which answer it waits for.
    Seats { partitions: Partitions, round: u32, all: bool },
    /// All shards have given their members seats at the sender, which deals for these partitions from now on.
    Ready { partitions: Partitions, round: u32 },
    /// The sender has dealt the message of this name to groups of these partitions; the receiver is their next home.
    /// home.
    Dealt { name: ExchangeName, partitions: Partitions },
}

impl DealingWord {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.put_u8(DEALING_KIND);
        match self {
            Self::Elsewhere { partitions } => {
                out.put_u8(0);
                put_partitions(out, partitions);
            }
            Self::Seats { partitions, round, all } => {
                out.put_u8(1);
                put_partitions(out, partitions);
                out.put_u32(round);
                out.put_u8(u8::from(all));
            }
            Self::Ready { partitions, round } => {
                out.put_u8(2);
                put_partitions(out, partitions);
                out.put_u32(round);
            }
            Self::Dealt { name, partitions } => {
                out.put_u8(3);
                put_partitions(out, partitions);
                name.write(out);
            }
        }
    }

    pub(super) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let kind = reader.u8("a word about dealing")?;
        let partitions = Partitions::read(reader)?;
        Ok(match kind {
            0 => Self::Elsewhere { partitions },
            1 => Self::Seats { partitions, round: reader.u32("a round")?, all: reader.flag("whether these are all")? },
            2 => Self::Ready { partitions, round: reader.u32("a round")? },
            3 => Self::Dealt { name: ExchangeName::read(reader)?, partitions },
            _ => return Err(WireError { reading: "a word about dealing" }),
        })
    }
}
