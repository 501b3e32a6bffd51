//! Records between shards about partitions that move between nodes.

use crate::ids::Partitions;
use crate::partitions::put_partitions;
use crate::wire::{WireError, WireReader, WireWrite};

/// The kind of [`Record::Transfer`](super::record::Record::Transfer).
pub(super) const TRANSFER_KIND: u8 = 44;

/// A word about a move; `id` is that of the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferWord {
    /// The sender asks the receiver to cut: its messages for these partitions are for the sender from now on.
    Ask { id: u64, partitions: Partitions },
    /// Later records of the sender are for the new home of these partitions.
    Cut { id: u64, partitions: Partitions },
    /// The sender is not going to be the new home.
    End { id: u64 },
}

impl TransferWord {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.put_u8(TRANSFER_KIND);
        match self {
            Self::Ask { id, partitions } => {
                out.put_u8(0);
                out.put_u64(id);
                put_partitions(out, partitions);
            }
            Self::Cut { id, partitions } => {
                out.put_u8(1);
                out.put_u64(id);
                put_partitions(out, partitions);
            }
            Self::End { id } => {
                out.put_u8(2);
                out.put_u64(id);
            }
        }
    }

    pub(super) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let kind = reader.u8("a word about a move")?;
        let id = reader.u64("a move")?;
        Ok(match kind {
            0 => Self::Ask { id, partitions: Partitions::read(reader)? },
            1 => Self::Cut { id, partitions: Partitions::read(reader)? },
            2 => Self::End { id },
            _ => return Err(WireError { reading: "a word about a move" }),
        })
    }
}
