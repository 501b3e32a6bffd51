//! Who has got a QoS 2 message that crosses between nodes.

use crate::ids::{PartitionId, Partitions};
use crate::link::transfer_word::{put_partitions, read_partitions};
use crate::wire::{WireError, WireReader};

/// Where a message has been. Sessions and groups of one partition are looked at apart: while homes change, a shard may
/// serve the sessions of a partition whose groups another one deals for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Got {
    /// Partitions whose sessions have got it, and whose retained values it was put among.
    pub sessions: Partitions,
    /// Partitions to whose groups it was dealt.
    pub groups: Partitions,
}

impl Got {
    /// Nobody has.
    pub(crate) const NOBODY: Self = Self { sessions: Partitions::NONE, groups: Partitions::NONE };

    /// These and those.
    #[must_use]
    pub(crate) fn with(self, others: Self) -> Self {
        Self { sessions: self.sessions.with(others.sessions), groups: self.groups.with(others.groups) }
    }

    /// These, but for the sessions of those.
    #[must_use]
    pub(crate) fn without_sessions(self, partitions: Partitions) -> Self {
        Self { sessions: self.sessions.without(partitions), ..self }
    }

    /// Of these, those of one partition.
    #[must_use]
    pub(crate) fn of(self, partition: PartitionId) -> Self {
        let one = Partitions::of(partition);
        Self { sessions: self.sessions.among(one), groups: self.groups.among(one) }
    }

    pub(crate) fn is_nobody(self) -> bool {
        self == Self::NOBODY
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        put_partitions(out, self.sessions);
        put_partitions(out, self.groups);
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self { sessions: read_partitions(reader)?, groups: read_partitions(reader)? })
    }

    /// Reads what is stored. Earlier versions did not tell groups from sessions.
    pub(crate) fn read_stored(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let sessions = read_partitions(reader)?;
        let groups = if reader.is_empty() { sessions } else { read_partitions(reader)? };
        Ok(Self { sessions, groups })
    }
}
